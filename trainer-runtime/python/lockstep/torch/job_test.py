"""The loop on a session without peers: what is saved when, and what is refused."""

import contextlib
import pathlib
import tempfile
import unittest
import unittest.mock

import torch

from lockstep.errors import (
    InvalidArgument,
    MeetAgain,
    Mismatch,
    NotSaved,
    Status,
    Stopped,
    StoppedUnsaved,
)
from lockstep.session import Meeting, Member
from lockstep.torch import checkpoint, job
from lockstep.torch.checkpoint import CheckpointStore
from lockstep.torch.job import Job, JobOptions
from lockstep.torch.sampler import Sampler

DISK_FULL = OSError(28, "No space left on device")


class FakeSession:
    """That of the only rank. `others` is what a second one gives to the first gathering."""

    def __init__(self, others=None):
        self.rank = 0
        self.size = 1
        self.others = others
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
        return torch.stack([tensor] if self.others is None else [tensor, self.others])

    def all_reduce(self, tensor, op, timeout):
        return tensor

    def begin_all_reduce(self, tensor, op, timeout):
        return self

    def wait(self):
        pass

    def broadcast(self, tensor, root, timeout):
        self.broadcast_timeouts.append(timeout)

    def should_stop(self, timeout):
        return self.stops_after is not None and self.reports[-1].step >= self.stops_after

    def report(self, progress):
        self.reports.append(progress)

    def finish(self, timeout):
        self.finish_timeouts.append(timeout)
        if len(self.finish_timeouts) <= self.losses_at_finish:
            raise MeetAgain("rank 1 did not wait", Status.LOST_PEER)

    def close(self):
        pass


class Loop(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name) / "checkpoints"

    def job(self, session, batch_size=4, epochs=1, **options):
        model = torch.nn.Linear(1, 1)
        made = {"checkpoint_directory": str(self.directory), "call_seconds": 3.0,
                "state_seconds": 50.0, **options}
        with unittest.mock.patch.object(job, "open", lambda plan, catches_stop: session):
            return Job(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                       sampler=Sampler(8, batch_size, epochs=epochs), options=JobOptions(**made))

    def train(self, made):
        data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1))
        loader = torch.utils.data.DataLoader(data, batch_sampler=made.sampler)
        with made:
            for (inputs,) in made.batches(loader):
                made.optimizer.zero_grad()
                loss = made.model(inputs).square().mean()
                loss.backward()
                made.step(loss)

    def full_disk(self):
        return unittest.mock.patch.object(checkpoint, "_write_lasting", side_effect=DISK_FULL)

    def test_an_end_that_cannot_be_saved_is_none(self):
        session = FakeSession()
        made = self.job(session)
        with self.full_disk(), self.assertRaisesRegex(NotSaved, "2 steps.*No space left") as end:
            self.train(made)
        self.assertEqual((end.exception.exit_code, session.finish_timeouts), (74, []))

    def test_a_stop_that_cannot_be_saved_is_told_from_one_that_is(self):
        for disk, kind, exit_code in ((self.full_disk(), StoppedUnsaved, 143),
                                      (contextlib.nullcontext(), Stopped, 42)):
            session = FakeSession()
            session.stops_after = 1
            made = self.job(session)
            with disk, self.assertRaisesRegex(Stopped, "stop after 1 steps") as end:
                self.train(made)
            self.assertEqual((type(end.exception), end.exception.exit_code), (kind, exit_code))

    def test_others_that_did_not_wait_for_the_last_checkpoint_make_nobody_write_it_again(self):
        session = FakeSession()
        session.losses_at_finish = 3
        made = self.job(session)
        with unittest.mock.patch.object(
                CheckpointStore, "_publish", autospec=True,
                side_effect=CheckpointStore._publish) as published:
            self.train(made)
        self.assertEqual((published.call_count, session.epoch), (1, 4))
        self.assertEqual(set(session.finish_timeouts), {50.0})

    def test_ranks_wait_as_long_as_a_checkpoint_may_take_to_be_read(self):
        session = FakeSession()
        self.job(session)
        self.assertEqual(set(session.broadcast_timeouts), {50.0})

    def test_ranks_with_other_batches_are_refused_with_both_values(self):
        for others, words in (([5, 1], "batch_size 5 found on rank 1, expected 4"),
                              ([4, 2], "epochs 2 found on rank 1, expected 1")):
            with self.assertRaisesRegex(Mismatch, words):
                self.job(FakeSession(torch.tensor(others)))

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
