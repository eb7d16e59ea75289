"""Elastic programs on a session that loses a rank on order."""

import contextlib
import io
import unittest
import unittest.mock

import torch

from lockstep.errors import InvalidArgument, MeetAgain, Status
from lockstep.horovod import process
from lockstep.horovod import torch as hvd
from lockstep.horovod.fake_ranks import FakeRanks
from lockstep.horovod.torch.world import Tensors
from lockstep.horovod.torch.world_test import FakeSession, results
from lockstep.horovod.world import World
from lockstep.session import Meeting, Member


class LosingSession(FakeSession):
    """That of the only rank, which loses another one at the calls whose numbers are in `losses`."""

    def __init__(self, losses=()):
        super().__init__(FakeRanks(1), 0)
        self.losses = list(losses)
        self.count = 0
        self.meetings = []

    def meet(self, has_state, step):
        self.meetings.append((has_state, step))
        member = Member(0, step, has_state, 0, "host")
        self.meeting = Meeting(len(self.meetings), 0, 1, 0 if has_state else None, (member,))
        return self.meeting

    def begin_all_reduce(self, tensor, op, timeout):
        self.count += 1
        if self.count in self.losses:
            raise MeetAgain("rank 1 is lost", Status.LOST_PEER)
        return super().begin_all_reduce(tensor, op, timeout)


class Elastic(unittest.TestCase):
    def begin(self, losses=()):
        session = LosingSession(losses)
        here = World(session, Tensors(), 30.0)
        here.meet(has_state=False)
        patch = unittest.mock.patch.object(process, "_world", here)
        patch.start()
        self.addCleanup(patch.stop)
        return session

    def train(self, state, steps=5, seen=None):
        """Steps of one call each, after which all is committed."""
        @hvd.elastic.run
        def work(state):
            while state.step < steps:
                if seen is not None:
                    seen.append(state.step)
                state.step += 1
                with torch.no_grad():
                    state.model.weight += 1
                hvd.barrier()
                state.commit()
            return "done"
        with contextlib.redirect_stdout(io.StringIO()) as told:
            self.assertEqual(work(state), "done")
        return told.getvalue()

    def state(self):
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        return hvd.elastic.TorchState(model=model, step=0)

    def test_a_loss_takes_back_what_was_not_committed_and_is_met(self):
        # Two calls of sync (model, objects), then one of each step.
        session = self.begin(losses=[5])
        state, seen, resets = self.state(), [], []
        state.register_reset_callbacks([lambda: resets.append(state.step)])
        told = self.train(state, seen=seen)
        self.assertEqual(seen, [0, 1, 2, 2, 3, 4])
        self.assertEqual((state.step, state.model.weight.item()), (5, 5.0))
        self.assertEqual(session.meetings, [(False, 0), (True, 2)])
        self.assertEqual(resets, [2])
        self.assertEqual(session.reports, [1, 2, 3, 4, 5])
        self.assertIn("joining a new rendezvous after step 2: barrier: rank 1 is lost", told)
        self.assertFalse(process.current().is_elastic)

    def test_a_loss_that_another_library_makes_its_own_exception_of_is_met(self):
        session = self.begin(losses=[3])
        state, seen = self.state(), []

        @hvd.elastic.run
        def work(state):
            seen.append(state.step)
            try:
                hvd.barrier()
            except MeetAgain as error:
                raise RuntimeError("as of TensorFlow") from error
            state.commit()
        with contextlib.redirect_stdout(io.StringIO()):
            work(state)
        self.assertEqual((seen, len(session.meetings)), ([0, 0], 2))

        @hvd.elastic.run
        def fails(state):
            raise RuntimeError("its own")
        with self.assertRaisesRegex(RuntimeError, "its own"):
            fails(state)

    def test_a_loss_while_the_state_is_handed_over_is_met_as_well(self):
        session = self.begin(losses=[2, 3])
        state = self.state()
        self.train(state)
        self.assertEqual(session.meetings, [(False, 0)] * 3)
        self.assertEqual((state.step, state.model.weight.item()), (5, 5.0))

    def test_losses_without_a_commit_between_them_end(self):
        session = self.begin(losses=range(1, 100))
        with contextlib.redirect_stderr(io.StringIO()) as told:
            with self.assertRaises(SystemExit) as end, contextlib.redirect_stdout(io.StringIO()):
                self.train(self.state())
        self.assertEqual(end.exception.code, 75)
        self.assertIn("ranks were lost 21 times without a commit", told.getvalue())
        self.assertEqual(len(session.meetings), 21)

    def test_outside_of_it_a_loss_ends_the_process(self):
        self.begin(losses=[1])
        with contextlib.redirect_stderr(io.StringIO()) as told:
            with self.assertRaises(SystemExit) as end:
                hvd.barrier()
        self.assertEqual(end.exception.code, 75)
        self.assertIn("barrier: rank 1 is lost", told.getvalue())

    def test_a_step_that_was_lost_on_its_way_leaves_no_gradients_under_way(self):
        session = self.begin(losses=[6])
        model = torch.nn.Linear(1, 1)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)

        @hvd.elastic.run
        def work(state):
            while state.step < 3:
                optimizer.zero_grad()
                model(torch.ones(1, 1)).sum().backward()
                optimizer.step()
                state.step += 1
                state.commit()
        with contextlib.redirect_stdout(io.StringIO()):
            work(state)
        self.assertEqual(session.meetings, [(False, 0), (True, 1)])
        self.assertAlmostEqual(model.bias.item() - state._saved_parts["model"]["bias"].item(), 0)
        self.assertEqual(session.reports, [1, 2, 3])

    def test_all_take_the_state_of_the_source(self):
        def work(rank):
            model = torch.nn.Linear(1, 1)
            with torch.no_grad():
                model.weight.fill_(rank)
            sampler = hvd.elastic.ElasticSampler(range(10))
            sampler.set_epoch(rank)
            state = hvd.elastic.TorchState(model=model, sampler=sampler, names=[rank])
            state.sync()
            return state.model.weight.item(), state.sampler.epoch, state.names
        self.assertEqual(results(3, work), [(0.0, 0, [0])] * 3)

    def test_what_is_no_model_is_refused(self):
        self.begin()
        with self.assertRaisesRegex(InvalidArgument, "model: list found"):
            hvd.elastic.TorchState(model=[1])

    def test_objects_are_copied_so_that_what_was_committed_stays(self):
        self.begin()
        state = hvd.elastic.ObjectState(history=[1])
        state.history.append(2)
        state.restore()
        self.assertEqual(state.history, [1])
        state.history.append(3)
        state.commit()
        state.history.clear()
        state.restore()
        self.assertEqual(state.history, [1, 3])


class Sampler(unittest.TestCase):
    def test_ranks_share_an_epoch_and_go_on_where_they_were(self):
        def work(rank):
            sampler = hvd.elastic.ElasticSampler(range(20), seed=3)
            first = list(sampler)[:2]
            sampler.record_batch(0, 2)
            kept = sampler.state_dict()
            sampler.set_epoch(1)
            sampler.load_state_dict(kept)
            return first, list(sampler), len(sampler)
        found = results(2, work)
        samples = [one for first, rest, _ in found for one in first + rest]
        self.assertEqual(sorted(samples), list(range(20)))
        self.assertEqual({length for *_, length in found}, {8})

    def test_what_does_not_divide_is_filled_up_and_epochs_differ(self):
        def work(rank):
            sampler = hvd.elastic.ElasticSampler(range(7))
            first = list(sampler)
            sampler.set_epoch(1)
            return first, list(sampler), list(hvd.elastic.ElasticSampler(range(7), shuffle=False))
        found = results(3, work)
        self.assertEqual({len(one[0]) for one in found}, {3})
        self.assertEqual({x for one in found for x in one[0]}, set(range(7)))
        self.assertNotEqual(found[0][0], found[0][1])
        self.assertEqual([one[2] for one in found], [[0, 3, 6], [1, 4, 0], [2, 5, 1]])


if __name__ == "__main__":
    unittest.main()
