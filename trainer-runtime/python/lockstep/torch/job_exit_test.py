"""What becomes of a job whose process ends without `close`: ranks are threads of this process."""

import contextlib
import io
import pathlib
import sys
import tempfile
import threading
import unittest
import unittest.mock

import torch

from lockstep import errors, exits
from lockstep.errors import LockstepError, MeetAgain, Status
from lockstep.fake_exchange import FakeExchange, in_threads, where_nobody_fails
from lockstep.torch import job
from lockstep.torch.job import Job, JobOptions
from lockstep.torch.job_ranks_test import FakeSession, Program, alike, sessions
from lockstep.torch.sampler import Sampler


class Ended(BaseException):
    """Of a program that goes no further."""


class Script(Program):
    """One that makes a job without `with`, leaves the loop after a step, and ends."""

    last_step = 3

    def train(self, session):
        sampler = Sampler(12, 4, epochs=2, seed=1)
        data = torch.utils.data.TensorDataset(self.inputs, self.labels)
        loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
        sessions.own = session
        self.job = Job(model=self.model, optimizer=self.optimizer, sampler=sampler,
                       options=JobOptions(**self.options))
        for inputs, labels in self.job.batches(loader):
            loss = (self.forward(inputs) - labels).square().mean()
            loss.backward()
            self.job.step(loss)
            if self.end(self.job) or self.job.step_count == self.last_step:
                break
        self.job._at_exit()  # as the interpreter calls it
        return self


class Exits(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name) / "checkpoints"
        self.exit_codes = {}  # by rank, of those that os._exit has ended
        self.wanted_code = 0  # of all
        for patch in (
                unittest.mock.patch.object(job, "open", lambda plan, catches: sessions.own),
                unittest.mock.patch.object(errors, "_end", None),
                unittest.mock.patch.object(errors, "_at_loss", None),
                unittest.mock.patch.object(exits, "call_at_exit"),
                unittest.mock.patch.object(exits, "code", lambda: self.wanted_code),
                unittest.mock.patch.object(exits, "end_at_last", self.exit)):
            patch.start()
            self.addCleanup(patch.stop)
        self.said = io.StringIO()

    def exit(self, code, sentence):
        self.exit_codes[sessions.own.rank] = code
        print(f"lockstep: {sentence}", file=sys.stderr)

    def run_on(self, size, kind):
        """The program of each rank, once it has come to its end."""
        job._has_finished = False
        world = FakeExchange(size, alike)
        programs = [kind() for _ in range(size)]
        self.sessions = [FakeSession(world, rank) for rank in range(size)]

        def train(rank):
            with contextlib.suppress(Ended):
                programs[rank].train(self.sessions[rank])
            return programs[rank]

        with contextlib.redirect_stderr(self.said):
            return where_nobody_fails(in_threads(size, train))

    def words(self):
        """Torch may warn of something else beside them."""
        return [line for line in self.said.getvalue().splitlines() if line.startswith("lockstep:")]

    def saved(self):
        return sorted(path.name for path in self.directory.glob("step-*"))

    def script(self, spoil=lambda made, weight: None, **options):
        """`spoil`: what a program does to a weight after its last step."""
        class Spoils(Script):
            def end(self, made):
                if made.step_count == self.last_step:
                    spoil(made, self.model[2].weight.data)

        Spoils.options = {"checkpoint_directory": str(self.directory), **options}
        return Spoils

    def test_ranks_that_differ_are_not_saved_and_do_not_end_well(self):
        self.run_on(2, self.script(lambda made, weight: weight.add_(made.rank)))
        self.assertEqual((self.exit_codes, self.saved()), ({0: 1, 1: 1}, []))
        for line in self.words():
            self.assertRegex(line, "^lockstep: model/2.weight differs between rank 0 and rank 1: "
                             "after step 3 all ranks have to hold the same")

    def test_weights_that_are_no_numbers_are_not_saved_and_do_not_end_well(self):
        self.run_on(2, self.script(lambda made, weight: weight.fill_(float("nan"))))
        self.assertEqual((self.exit_codes, self.saved()), ({0: 79, 1: 79}, []))

    def test_the_last_step_is_saved_also_where_no_thread_can_be_started(self):
        """As from Python 3.12 on, where handlers at exit run."""
        start = threading.Thread.start

        def refuse(thread):
            if thread.name == "lockstep-checkpoint":
                raise RuntimeError("can't create new thread at interpreter shutdown")
            start(thread)

        with unittest.mock.patch.object(threading.Thread, "start", refuse):
            self.run_on(2, self.script())
        self.assertEqual((self.exit_codes, self.saved()), ({}, ["step-00000003"]))
        self.assertEqual(self.words(), [
            "lockstep: the program left the loop after 3 of 6 steps, and they are saved"])

    def test_a_last_step_that_cannot_be_saved_is_told(self):
        full = unittest.mock.patch("lockstep.torch.checkpoint_files.CheckpointFiles.write",
                                   side_effect=OSError(28, "No space left on device"))
        with full:
            self.run_on(2, self.script())
        self.assertEqual(self.exit_codes, {0: 74, 1: 74})
        self.assertRegex(self.said.getvalue(), "after 3 of 6 steps, but they are not saved: No ")

    def test_a_rank_that_ends_after_the_last_step_ends_with_the_others(self):
        class Last(self.script()):
            last_step = 6

        self.run_on(2, Last)
        self.assertEqual((self.exit_codes, self.saved()), ({}, ["step-00000006"]))
        self.assertEqual(self.words(), [])

    def test_what_a_batch_has_changed_that_has_no_step_is_not_kept(self):
        class Leaves(self.script()):
            def __init__(self):
                super().__init__()
                self.model.append(torch.nn.BatchNorm1d(1))

            def forward(self, inputs):
                if self.job.step_count == 2:  # in the third batch, beside other samples on each
                    super().forward(inputs)
                    self.job._at_exit()
                    raise Ended
                return super().forward(inputs)

        self.run_on(2, Leaves)
        self.assertEqual((self.exit_codes, self.saved()), ({}, ["step-00000002"]))

    def test_ranks_that_end_with_a_code_leave_as_from_with_and_keep_it(self):
        self.wanted_code = 75
        with unittest.mock.patch.object(FakeSession, "close") as close, \
                unittest.mock.patch.object(FakeSession, "finish") as finish:
            self.run_on(2, self.script())
        self.assertEqual((close.call_count, finish.call_count), (2, 0))
        self.assertEqual((self.exit_codes, self.saved(), self.words()), ({}, [], []))

    def test_what_is_in_the_way_of_leaving_changes_no_code(self):
        self.wanted_code = 75
        with unittest.mock.patch.object(FakeSession, "close", side_effect=LockstepError("why")):
            self.run_on(1, self.script())
        self.assertEqual((self.exit_codes, self.words()), ({0: 75}, ["lockstep: why"]))

    def words_at_loss(self, **options):
        """Those of a program whose own call loses a rank after step 3."""
        def lose(made, weight):
            raise MeetAgain("rank 1 is lost", Status.LOST_PEER)

        job._has_finished = False
        self.said = io.StringIO()
        program = self.script(lose, **options)()
        with contextlib.redirect_stderr(self.said), self.assertRaises(SystemExit) as ended:
            errors.run(lambda: program.train(FakeSession(FakeExchange(1, alike), 0)))
        self.assertEqual(ended.exception.code, 75)
        return self.words()

    def test_a_program_that_lets_a_loss_pass_hears_which_steps_are_lost_and_how_to_keep_them(self):
        for options, lost in (
                ({"checkpoint_every": 2}, "the steps since the newest checkpoint are lost"),
                ({}, "all steps of this run are lost, because JobOptions.checkpoint_every is 0 and "
                     "no checkpoint was written"),
                ({"checkpoint_every": 2, "checkpoint_directory": None},
                 "all steps of this run are lost, because checkpoint_directory is not set and no "
                 "checkpoint was written")):
            self.assertEqual(self.words_at_loss(**options), [
                "lockstep: a rank was lost after step 3 during a call of job.session, and the "
                f"program did not catch lockstep.MeetAgain: {lost}. To keep the steps, catch "
                "lockstep.MeetAgain around the call and take the next batch",
                "lockstep: rank 1 is lost"])

    def test_a_program_without_run_that_lets_a_loss_pass_hears_it_as_well(self):
        self.run_on(1, self.script())
        self.wanted_code = 1
        uncaught = unittest.mock.patch.object(sys, "last_type", MeetAgain, create=True)
        ends = unittest.mock.patch.object(exits, "end_at_last")
        with contextlib.redirect_stderr(self.said), uncaught, ends as end_now:
            errors._at_exit()
            self.assertRegex("".join(self.words()), "did not catch lockstep.MeetAgain: all steps")
            self.assertEqual(end_now.call_args.args[0], 75)
            count = len(self.words())
            errors.note_end(MeetAgain("no step was completed", Status.LOST_PEER))
            errors._at_exit()  # what the loop itself has raised is not for the program to catch
        self.assertEqual(len(self.words()), count)

    def test_an_error_of_the_loop_that_the_program_caught_is_watched_for(self):
        with unittest.mock.patch.object(exits, "call_at_exit") as call:
            self.run_on(1, self.script())
        self.assertEqual([one.args[0] for one in call.call_args_list][:1], [errors._at_exit])


if __name__ == "__main__":
    unittest.main()
