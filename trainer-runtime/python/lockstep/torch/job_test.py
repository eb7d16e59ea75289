"""The loop on a session without peers: what is saved when, and what is refused."""

import contextlib
import io
import json
import math
import os
import pathlib
import tempfile
import threading
import unittest
import unittest.mock

import torch

from lockstep import exits
from lockstep.errors import (
    Diverged,
    InvalidArgument,
    LockstepError,
    MeetAgain,
    Mismatch,
    NotSaved,
    Status,
    Stopped,
    StoppedUnsaved,
    note_end,
)
from lockstep.fake_exchange import FakeExchange, in_threads
from lockstep.library import Leave, Phase
from lockstep.session import Meeting, Member
from lockstep.torch import job
from lockstep.torch.checkpoint_files import CheckpointFiles
from lockstep.torch.job import Job, JobOptions
from lockstep.torch.sampler import Sampler

DISK_FULL = OSError(28, "No space left on device")


class FakeSession:
    """That of the only rank, or of `rank` of those that `exchange` knows."""

    note_end = staticmethod(note_end)

    def __init__(self, exchange=None, rank=0):
        self.rank = rank
        self.size = 1
        self.exchange = exchange
        self.is_closed = False
        self.epoch = 0
        self.losses_at_finish = 0
        self.stops_after = None
        self.finish_timeouts = []
        self.broadcast_timeouts = []
        self.reports = []

    def meet(self, has_state, step, timeout):
        self.epoch += 1
        member = Member(0, step, has_state, 0, "host")
        self.meeting = Meeting(self.epoch, 0, 1, 0 if has_state else None, (member,))

    def all_gather(self, tensor, timeout):
        if self.exchange is None:
            return torch.stack([tensor])
        return self.exchange.exchange(self.rank, tensor)

    def all_reduce(self, tensor, op, timeout):
        return tensor

    def begin_all_reduce(self, tensor, op, timeout):
        return self

    def wait(self):
        pass

    def broadcast(self, tensor, root, timeout):
        self.broadcast_timeouts.append(timeout)

    def should_stop(self, timeout):
        is_asked = self.stops_after is not None and self.reports[-1].step >= self.stops_after
        return Leave.TOGETHER if is_asked else Leave.NOT

    def barrier(self, timeout):
        pass

    def report(self, progress):
        self.reports += [] if progress.phase == Phase.RESTORING else [progress]

    def finish(self, timeout):
        self.finish_timeouts.append(timeout)
        if len(self.finish_timeouts) <= self.losses_at_finish:
            raise MeetAgain("rank 1 did not wait", Status.LOST_PEER)

    def close(self):
        self.is_closed = True


class Loop(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(scratch.cleanup)
        job._has_finished = False
        unittest.mock.patch.object(exits, "call_at_exit").start()
        self.addCleanup(unittest.mock.patch.stopall)
        self.directory = pathlib.Path(scratch.name) / "checkpoints"

    def job(self, session, batch_size=4, epochs=1, extra=None, model=None, **options):
        model = model or torch.nn.Linear(1, 1)
        job._has_finished = False  # another process
        made = {"checkpoint_directory": str(self.directory), "call_seconds": 3.0,
                "state_seconds": 50.0, **options}
        with unittest.mock.patch.object(job, "open", lambda plan, catches_stop: session):
            return Job(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                       sampler=Sampler(8, batch_size, epochs=epochs), extra=extra,
                       options=JobOptions(**made))

    def train(self, made, change=lambda loss: loss.backward()):
        """`change`: what the program does with the loss before `step`."""
        data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1))
        loader = torch.utils.data.DataLoader(data, batch_sampler=made.sampler)
        with made:
            for (inputs,) in made.batches(loader):
                made.optimizer.zero_grad()
                loss = made.model(inputs).square().mean()
                change(loss)
                made.step(loss)

    def leave_early(self, made, after, in_batch=False):
        """A loop that is left once `after` steps are taken, in the next batch if `in_batch`."""
        data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1))
        loader = torch.utils.data.DataLoader(data, batch_sampler=made.sampler)
        with made:
            for (inputs,) in made.batches(loader):
                if in_batch and made.step_count == after:
                    break
                loss = made.model(inputs).square().mean()
                loss.backward()
                made.step(loss)
                if not in_batch and made.step_count == after:
                    break

    def saved(self):
        return sorted(path.name for path in self.directory.glob("step-*"))

    def full_disk(self):
        return unittest.mock.patch.object(CheckpointFiles, "write", side_effect=DISK_FULL)

    def test_an_end_that_cannot_be_saved_is_none(self):
        session = FakeSession()
        made = self.job(session)
        with self.full_disk(), self.assertRaisesRegex(NotSaved, "2 steps.*No space left") as end:
            self.train(made)
        self.assertEqual((end.exception.exit_code, session.finish_timeouts), (74, []))

    def test_a_loop_that_is_left_early_keeps_its_last_step(self):
        for in_batch in (False, True):
            session = FakeSession()
            words = io.StringIO()
            with contextlib.redirect_stderr(words):
                self.leave_early(self.job(session, 2, checkpoint_every=2), 3, in_batch)
            self.assertEqual(self.saved()[-1], "step-00000003")
            self.assertEqual(words.getvalue(), "lockstep: the program left the loop after 3 of 4 "
                             "steps, and they are saved\n")
            self.assertEqual((session.reports[-1].step, session.is_closed), (3, True))
            self.directory = self.directory.with_name("second")

    def test_a_loop_that_is_left_early_and_cannot_be_saved_is_told(self):
        session = FakeSession()
        made = self.job(session)
        words = "left the loop after 1 of 2 steps, .*space"
        with self.full_disk(), self.assertRaisesRegex(NotSaved, words):
            self.leave_early(made, 1)
        self.assertTrue(session.is_closed)

    def test_an_exception_keeps_no_step_that_was_not_to_be_kept(self):
        made = self.job(FakeSession())
        with self.assertRaises(ZeroDivisionError):
            self.train(made, lambda loss: loss.backward() if made.step_count == 0 else 1 // 0)
        self.assertEqual(self.saved(), [])

    def test_the_pace_is_that_of_the_samples_that_were_used(self):
        session = FakeSession()
        made = self.job(session, batch_size=6)  # of 8: the second batch has two
        clock = unittest.mock.Mock(monotonic=unittest.mock.Mock(side_effect=range(100)))
        with unittest.mock.patch.object(job, "time", clock):
            made._begin = -1
            self.train(made)
        paces = [report.samples_per_second for report in session.reports]
        self.assertEqual([pace / paces[0] for pace in paces], [1, 2 / 6])

    def test_a_stop_that_cannot_be_saved_is_told_from_one_that_is(self):
        for disk, kind, exit_code in ((self.full_disk(), StoppedUnsaved, 143),
                                      (contextlib.nullcontext(), Stopped, 42)):
            session = FakeSession()
            session.stops_after = 1
            made = self.job(session)
            with disk, self.assertRaisesRegex(Stopped, "stop after 1 steps") as end:
                self.train(made)
            self.assertEqual((type(end.exception), end.exception.exit_code), (kind, exit_code))

    def test_an_end_that_cannot_be_saved_leaves_that_as_last_words(self):
        file = self.directory.parent / "last-words"
        file.write_text("x" * 5000)  # what was there is longer
        session = FakeSession()
        session.stops_after = 1
        with unittest.mock.patch.dict(
                os.environ, {"LOCKSTEP_TERMINATION_MESSAGE_FILE": str(file)}):
            made = self.job(session)
            with self.full_disk(), self.assertRaises(StoppedUnsaved):
                self.train(made)
            stopped = json.loads(file.read_text())
            made = self.job(FakeSession())
            with self.full_disk(), self.assertRaises(NotSaved):
                self.train(made)
            ended = json.loads(file.read_text())
        self.assertEqual(
            (stopped["outcome"], stopped["lastStep"], stopped["stepsTotal"]), ("preempted", 1, 2))
        problem = f"No space left on device: {self.directory}; free space there, or keep fewer " \
            "checkpoints (checkpoint_keep)"
        self.assertEqual(
            stopped["reason"], f"asked to stop after 1 steps, but they are not saved: {problem}")
        self.assertEqual(
            stopped["checkpoints"],
            {"written": 0, "failed": 1, "skipped": 0, "lastError": problem})
        self.assertEqual((ended["outcome"], ended["lastStep"]), ("permanent", 2))
        self.assertRegex(ended["reason"], "2 steps, but they are not saved: .*No space left")

    def test_others_that_did_not_wait_for_the_last_checkpoint_make_nobody_write_it_again(self):
        session = FakeSession()
        session.losses_at_finish = 3
        made = self.job(session)
        with unittest.mock.patch.object(
                CheckpointFiles, "write", autospec=True,
                side_effect=CheckpointFiles.write) as published:
            self.train(made)
        self.assertEqual((published.call_count, session.epoch), (1, 4))
        self.assertEqual(set(session.finish_timeouts), {50.0})

    def test_ranks_wait_as_long_as_a_checkpoint_may_take_to_be_read(self):
        session = FakeSession()
        self.job(session)
        self.assertEqual(set(session.broadcast_timeouts), {50.0})

    def refusal(self, rank_1):
        """What both ranks say where rank 1 comes with what `rank_1` has of its own."""
        exchange = FakeExchange(2, torch.stack)

        def come(rank):
            own = {"model": torch.nn.Linear(2, 3), "optimizer": torch.optim.SGD,
                   "sampler": {"sample_count": 8, "batch_size": 4}, "options": JobOptions(),
                   "extra": {"a": torch.nn.Identity()}, **(rank_1 if rank == 1 else {})}
            sessions.own = FakeSession(exchange, rank)
            Job(model=own["model"], sampler=Sampler(**own["sampler"]), extra=own["extra"],
                optimizer=own["optimizer"](own["model"].parameters(), lr=0.1),
                options=own["options"])

        sessions = threading.local()
        opened = unittest.mock.patch.object(job, "open", lambda plan, catches_stop: sessions.own)
        with opened:
            found = in_threads(2, come)
        for one in found:
            self.assertIsInstance(one, Mismatch)
        self.assertEqual(str(found[0]), str(found[1]))
        return str(found[0])

    def test_ranks_that_differ_are_refused_with_what_differs_and_both_values(self):
        size = {"sample_count": 8, "batch_size": 4}
        for rank_1, name, values in (
                ({"sampler": {**size, "batch_size": 5}}, "sampler: batch_size", ("5", "4")),
                ({"sampler": {**size, "epochs": 2}}, "sampler: epochs", ("2", "1")),
                ({"sampler": {**size, "sample_count": 9}}, "sampler: sample_count", ("9", "8")),
                ({"sampler": {**size, "seed": 7}}, "sampler: seed", ("7", "0")),
                ({"model": torch.nn.Linear(2, 4)}, "model: weight",
                 ("[4, 2] torch.float32", "[3, 2] torch.float32")),
                ({"model": torch.nn.Linear(2, 3, bias=False)}, "model: bias",
                 ("none", "[3] torch.float32")),
                ({"optimizer": torch.optim.Adam}, "optimizer:", ("Adam", "SGD")),
                ({"extra": {"b": torch.nn.Identity()}}, "extra: keys", ("['b']", "['a']")),
                ({"options": JobOptions(plan="mine")}, "plan:", ("'mine'", "''")),
                ({"options": JobOptions(checkpoint_directory="/x")}, "checkpoint_directory:",
                 ("some", "none"))):
            self.assertEqual(
                self.refusal(rank_1),
                f"{name} {values[0]} found on rank 1, expected {values[1]}, as on rank 0")

    def test_a_checkpoint_without_a_key_of_extra_is_refused_by_name(self):
        self.train(self.job(FakeSession(), extra={}))
        with self.assertRaisesRegex(Mismatch, r"^extra: keys \['b'\] found"):
            self.job(FakeSession(), extra={"b": torch.nn.Identity()})

    def test_a_checkpoint_of_another_model_is_refused_with_the_tensors_that_differ(self):
        self.train(self.job(FakeSession()))
        with self.assertRaisesRegex(
                Mismatch, r"^the newest checkpoint does not fit this job: model: weight: \[2, 1\] "
                r"torch.float32 found, the saved state was made with \[1, 1\] torch.float32; "
                r"model: bias: \[2\] .*; to begin at step 0, set another checkpoint_directory$"):
            self.job(FakeSession(), model=torch.nn.Linear(1, 2))

    def test_there_is_no_second_job_after_the_end_of_the_first(self):
        self.train(self.job(FakeSession()))
        model = torch.nn.Linear(1, 1)
        with self.assertRaisesRegex(InvalidArgument, "^Job: a second Job in this process found"):
            Job(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                sampler=Sampler(8, 4))

    def test_a_job_that_is_not_made_leaves_no_session(self):
        self.train(self.job(FakeSession(), extra={}))
        session = FakeSession()
        with self.assertRaises(Mismatch):
            self.job(session, extra={"b": torch.nn.Identity()})
        self.assertTrue(session.is_closed)

    def test_a_step_without_any_gradient_is_refused(self):
        made = self.job(FakeSession())
        with self.assertRaisesRegex(InvalidArgument, "no parameter has a gradient on 1 of 1 ranks"):
            self.train(made, lambda loss: None)
        self.assertEqual(made.step_count, 0)

    def test_weights_that_the_program_steps_itself_are_compared_and_may_be_equal(self):
        def also_steps(loss):
            loss.backward()
            made.optimizer.step()

        session = FakeSession()
        made = self.job(session)
        self.train(made, also_steps)
        self.assertEqual(made.step_count, 2)

    def test_weights_are_compared_anew_after_each_meeting(self):
        # By all ranks or none: one that has come only now knows of no earlier comparison.
        made = self.job(FakeSession())
        compared = made._watch.compare = unittest.mock.Mock()
        for count in (1, 1):
            made._watch.compare_now_and_then(1, count)
        self.assertEqual(compared.call_count, 1)
        made._meet()
        made._watch.compare_now_and_then(1, 1)
        self.assertEqual(compared.call_count, 2)

    def test_weights_that_step_alone_changes_are_compared_each_so_many_steps_and_at_the_end(self):
        for every, steps in ((100, [6]), (2, [2, 4, 6]), (0, [6])):
            made = self.job(FakeSession(), epochs=3, compare_every=every)
            made._watch.compare = unittest.mock.Mock()
            self.train(made)
            self.assertEqual([one.args[0] for one in made._watch.compare.call_args_list], steps)
            self.directory = self.directory.with_name(self.directory.name + "+")

    def test_meetings_that_lead_to_no_step_have_an_end(self):
        lost = MeetAgain("rank 1 is lost", Status.LOST_PEER)
        words = "^no step was completed after 20 rendezvous in a row: rank 1 is lost$"
        session = FakeSession()
        with unittest.mock.patch.object(session, "broadcast", side_effect=lost), \
                self.assertRaisesRegex(MeetAgain, words):
            self.job(session)
        self.assertEqual(session.epoch, 20)
        self.directory = self.directory.with_name("second")
        session = FakeSession()
        made = self.job(session, epochs=100)
        # A step between them counts anew.
        failures = iter([True] * 19 + [False] + [True] * 20)

        def all_reduce(tensor, op, timeout):
            if next(failures):
                raise lost
            return tensor

        with unittest.mock.patch.object(session, "all_reduce", all_reduce), \
                self.assertRaisesRegex(MeetAgain, words):
            self.train(made)
        self.assertEqual(made.step_count, 1)

    def test_a_rank_that_is_lost_in_a_call_of_the_program_is_met_in_the_next_batch(self):
        lost = MeetAgain("rank 1 is lost", Status.LOST_PEER)
        for catches in (True, False):
            session = FakeSession()
            made = self.job(session, checkpoint_directory=None)
            data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1))
            loader = torch.utils.data.DataLoader(data, batch_sampler=made.sampler)

            def lose(session=session):  # all later calls fail, too
                session.should_stop = unittest.mock.Mock(side_effect=[lost, Leave.NOT])
                raise lost

            with contextlib.suppress(MeetAgain), made:
                for (inputs,) in made.batches(loader):
                    loss = made.model(inputs).square().mean()
                    loss.backward()
                    made.step(loss)
                    with contextlib.suppress(*[MeetAgain] * catches):
                        lose() if made.step_count == 1 else None
            self.assertEqual((made.step_count, session.epoch), (2, 2) if catches else (1, 1))

    def test_a_batch_without_step_says_how_to_accumulate(self):
        made = self.job(FakeSession())
        data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1))
        with self.assertRaisesRegex(LockstepError, "step was not called .*To accumulate gradients"):
            for _ in made.batches(torch.utils.data.DataLoader(data, batch_sampler=made.sampler)):
                pass

    def test_a_dataset_without_numbers_is_refused_by_name(self):
        made = self.job(FakeSession())
        stream = torch.utils.data.IterableDataset
        stream = type("Stream", (stream,), {"__iter__": lambda self: iter(torch.ones(8, 1))})
        with self.assertRaisesRegex(LockstepError, "so an IterableDataset does not work"):
            next(made.batches(torch.utils.data.DataLoader(stream(), batch_size=4)))

    def test_a_loss_or_gradient_that_is_not_finite_ends_the_job_before_the_update(self):
        def loss_of_step_2(loss):
            loss.backward()
            if made.step_count == 1:
                loss.data.fill_(bad)

        for bad, words in ((math.nan, "the loss of step 2 is NaN"), (-math.inf, "step 2 is inf")):
            made = self.job(FakeSession(), epochs=3)
            with self.assertRaisesRegex(Diverged, f"{words}: the model has diverged; .*smaller"
                                        r".*set JobOptions\(terminate_on_nan=False\)") as end:
                self.train(made, loss_of_step_2)
            self.assertEqual((made.step_count, end.exception.exit_code, self.saved()), (1, 79, []))

        def spoil_gradient(loss):
            loss.backward()
            made.model.bias.grad.fill_(math.inf)

        made = self.job(FakeSession())
        with self.assertRaisesRegex(Diverged, "^the gradients of step 1 are not finite: "):
            self.train(made, spoil_gradient)
        self.assertTrue(bool(torch.isfinite(made.model.bias)))

    def test_an_update_that_overflows_is_not_saved(self):
        def overflow(loss):
            loss.backward()
            made.optimizer.param_groups[0]["lr"] = 3e38 if made.step_count == 1 else 0.1

        made = self.job(FakeSession())
        with self.assertRaisesRegex(Diverged, "^after step 2 model: weight is not finite: "):
            self.train(made, overflow)
        self.assertEqual(self.saved(), [])

    def test_a_loss_that_is_not_finite_is_told_once_in_a_row(self):
        made = self.job(FakeSession(), epochs=3, terminate_on_nan=False)
        said = io.StringIO()

        def spoil(loss):
            loss.backward()
            if made.step_count in (1, 2, 4):
                loss.data.fill_(float("nan"))

        with contextlib.redirect_stderr(said):
            self.train(made, spoil)
        lines = [line for line in said.getvalue().splitlines() if "is nan" in line]
        self.assertEqual([line.split(":")[1] for line in lines],
                         [" the loss of step 2 is nan", " the loss of step 5 is nan"])

    def test_a_checkpoint_directory_of_the_environment_is_no_url(self):
        variables = {"LOCKSTEP_CHECKPOINT_DIR": "s3://bucket/x"}
        with unittest.mock.patch.dict(os.environ, variables), self.assertRaisesRegex(
                InvalidArgument, "^LOCKSTEP_CHECKPOINT_DIR: 's3://bucket/x' found, expected the"):
            self.job(FakeSession(), checkpoint_directory=None)

    def test_a_loss_that_is_no_number_is_refused_and_the_batch_stays_open(self):
        made = self.job(FakeSession())
        data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1))
        loader = torch.utils.data.DataLoader(data, batch_sampler=made.sampler)
        for (inputs,) in made.batches(loader):
            loss = made.model(inputs).square().mean()
            loss.backward()
            for wrong, words in (("x", "loss: 'x' found, expected a number"),
                                 (torch.ones(3), r"loss: shape \[3\] found, expected one number")):
                with self.assertRaisesRegex(InvalidArgument, "^" + words):
                    made.step(wrong)
            made.step(loss)
        self.assertEqual(made.step_count, 2)

    def test_a_later_run_goes_on_with_other_batches_and_knows_the_steps_left(self):
        first = FakeSession()
        first.stops_after = 1
        with contextlib.suppress(Stopped):
            self.train(self.job(first))
        second = FakeSession()
        self.train(self.job(second, batch_size=2, epochs=2))
        # One step of four samples, two of two, then four.
        self.assertEqual([report.step for report in second.reports], [2, 3, 4, 5, 6, 7])
        self.assertEqual({report.steps_total for report in second.reports}, {7})

    def test_a_step_that_cannot_be_counted_changes_nothing(self):
        made = self.job(FakeSession())
        made.sampler._uses.fill_(65_535)
        before = made.model.weight.detach().clone()
        with self.assertRaisesRegex(InvalidArgument, "is used 65536 times"):
            self.train(made)
        self.assertTrue(torch.equal(made.model.weight, before))


if __name__ == "__main__":
    unittest.main()
