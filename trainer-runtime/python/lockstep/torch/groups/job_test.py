"""The loop on torch's groups, on a session without peers: what a loss leaves of a step."""

import contextlib
import pathlib
import tempfile
import unittest
import unittest.mock

import torch

from lockstep import exits
from lockstep.errors import InvalidArgument, MeetAgain, Status
from lockstep.torch import job as plain
from lockstep.torch.groups import job
from lockstep.torch.groups.copies import Copies
from lockstep.torch.groups.job import Job
from lockstep.torch.holdings import Holdings
from lockstep.torch.job_test import FakeSession
from lockstep.torch.options import JobOptions
from lockstep.torch.sampler import Sampler

LOST = MeetAgain("rank 1 is lost", Status.LOST_PEER)


class FakeControl:
    """Of a process whose groups nobody uses."""

    def __init__(self):
        self.session = FakeSession()
        self.raises = True
        self.lost = None
        self.formed_count = 0
        self.silences = []
        self.failed = None

    def failure(self):
        return self.failed

    @contextlib.contextmanager
    def silent(self, why):
        self.silences.append(why)
        yield
        self.silences.pop()

    def await_loss(self):
        return self.lost

    def leave(self):
        self.lost = self.failed = None

    def form(self):
        self.formed_count += 1


class JobCase(unittest.TestCase):
    """A model with BatchNorm, for jobs of one rank."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(scratch.cleanup)
        self.addCleanup(unittest.mock.patch.stopall)
        self.directory = pathlib.Path(scratch.name) / "checkpoints"
        self.control = FakeControl()
        plain._has_finished = False
        unittest.mock.patch.object(exits, "call_at_exit").start()
        unittest.mock.patch.multiple(
            job, is_group_initialized=lambda: True, is_open=lambda: True,
            control=lambda: self.control).start()
        # Those of other tests may be left.
        unittest.mock.patch.object(Holdings, "has_unknown_scaler", lambda _: False).start()
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.BatchNorm1d(2))

    def state(self):
        return {name: one.clone() for name, one in self.model.state_dict().items()}

    def lost_vote(self, made, has_inf=False):
        """The vote comes through, and this rank does not hear of it. `has_inf`: the scaler of
        another rank has found infinities."""
        vote = made._reducer.reduce

        def deaf(*arguments):
            vote(*arguments)
            made._reducer.found_inf = has_inf
            raise LOST

        return unittest.mock.patch.object(made._reducer, "reduce", deaf)


class GroupsJob(JobCase):
    def job(self, checkpoint_every=0, epochs=1, **named):
        return Job(model=self.model, optimizer=torch.optim.SGD(self.model.parameters(), lr=0.1),
                   sampler=Sampler(8, 4, epochs=epochs), options=JobOptions(
                       checkpoint_every=checkpoint_every,
                       checkpoint_directory=str(self.directory)), **named)

    def batches(self, made):
        data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1))
        loader = torch.utils.data.DataLoader(data, batch_sampler=made.sampler)
        for (inputs,) in made.batches(loader):
            yield inputs

    def test_copies_are_taken_at_the_steps_that_are_due_and_none_at_the_end(self):
        made = self.job(epochs=3)
        made._copies = unittest.mock.Mock(is_due=Copies(2, 2, 1).is_due)
        with unittest.mock.patch.multiple(
                Job, _shards=unittest.mock.Mock(), _common=lambda _: {"step": made.step_count}):
            for inputs in self.batches(made):
                self.model(inputs).square().mean().backward()
                made.step()
        self.assertEqual([call.args[1] for call in made._copies.take.call_args_list], [2, 4])
        self.assertEqual(made.step_count, 6)

    def test_copies_are_refused_where_each_rank_holds_the_whole_model(self):
        with self.assertRaisesRegex(InvalidArgument, "^copy_every: 5 found, but each rank holds"):
            self.job(copy_every=5)

    def saved(self):
        return sorted(path.name for path in self.directory.glob("step-*"))

    def test_a_loss_after_a_step_leaves_what_the_step_came_to_and_its_checkpoint(self):
        made = self.job(checkpoint_every=1)
        batches = self.batches(made)
        with made.attempt():
            self.model(next(batches)).square().mean().backward()
            self.assertTrue(made.step())
            after = self.state()
            raise LOST
        for name, one in self.state().items():
            self.assertTrue(torch.equal(one, after[name]), name)
        next(batches)
        self.assertEqual((made.step_count, self.control.formed_count), (1, 2))
        self.assertFalse(made._keeper.is_behind)
        made.close()
        self.assertEqual(self.saved(), ["step-00000001"])

    def test_a_loss_in_a_step_forgets_it(self):
        made = self.job()
        batches = self.batches(made)
        before = self.state()
        with made.attempt():
            self.model(next(batches)).square().mean().backward()
            raise LOST
        for name, one in self.state().items():
            self.assertTrue(torch.equal(one, before[name]), name)
        next(batches)
        self.assertEqual((made.step_count, self.control.formed_count), (0, 2))
        made.close()

    def test_a_step_in_which_a_call_has_failed_is_taken_by_no_rank(self):
        made = self.job()
        batches = self.batches(made)
        before = self.state()
        self.control.session.abort = unittest.mock.Mock()
        with made.attempt():
            self.model(next(batches)).square().mean().backward()
            self.control.failed = "allreduce failed: a connection was closed"
            self.assertFalse(made.step())
        for name, one in self.state().items():
            self.assertTrue(torch.equal(one, before[name]), name)
        self.control.session.abort.assert_called_once_with(
            "allreduce failed: a connection was closed")
        next(batches)
        self.assertEqual((made.step_count, self.control.formed_count), (0, 2))
        made.close()

    def test_ranks_are_told_in_a_meeting_that_this_one_has_left_the_loop(self):
        session = self.control.session
        made = self.job()
        batches = self.batches(made)
        for is_last in (False, True):
            next(batches)
            self.model(torch.ones(4, 1)).square().mean().backward()
            made.step()
            with unittest.mock.patch.object(plain.Job, "_end_early"):
                made._end_early()
            self.assertEqual(session.has_left_loop, not is_last)
        made.close()

    def scaled(self):
        """A job with a GradScaler, and how its next step is tried."""
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0, growth_interval=1)
        made = self.job(scaler=scaler)
        batches = self.batches(made)

        def attempt():
            with made.attempt():
                scaler.scale(self.model(next(batches)).square().mean()).backward()
                return made.step()

        return made, scaler, attempt

    def test_a_step_of_a_grad_scaler_whose_vote_was_lost_is_taken_again(self):
        made, scaler, attempt = self.scaled()
        with self.lost_vote(made):
            self.assertFalse(attempt())
        self.assertTrue(attempt())
        self.assertEqual((made.step_count, scaler.get_scale()), (1, 4))
        made.close()

    def test_a_step_of_a_grad_scaler_that_others_have_taken_is_what_it_would_have_been(self):
        for has_inf in (False, True):
            made, scaler, attempt = self.scaled()
            before = self.state()
            made._rolls_forward = True
            with self.lost_vote(made, has_inf):
                self.assertFalse(attempt())
            made._roll_forward(1)
            is_changed = not torch.equal(self.model[0].weight, before["0.weight"])
            self.assertEqual((is_changed, made.step_count), (not has_inf, 1))
            self.assertEqual(scaler.get_scale(), 1 if has_inf else 4)

    def test_calls_are_not_answered_while_extra_is_asked_for_its_state(self):
        silences = []

        class Extra:
            def state_dict(extra):
                silences.extend(self.control.silences)
                return {}

            def load_state_dict(extra, state):
                pass

        self.job(extra={"mean": Extra()}).close()
        self.assertRegex(silences[0], "^called by state_dict of extra: mean, expected")


if __name__ == "__main__":
    unittest.main()
