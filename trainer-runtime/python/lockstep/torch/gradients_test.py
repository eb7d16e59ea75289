"""What a step adds up over ranks, beside one process that has the whole batch."""

import copy
import unittest

import torch
from torch import nn

from lockstep.errors import MeetAgain
from lockstep.fake_exchange import FakeExchange, in_threads, where_nobody_fails
from lockstep.torch.gradients import StepReducer, StepShare
from lockstep.torch.holdings import Holdings


class FakeSession:
    """One rank's; as much of lockstep.torch.Session as a reducer uses."""

    def __init__(self, world, rank):
        self.world = world
        self.rank = rank
        self.size = world.size
        self.is_lost = False

    def all_reduce(self, tensor, op, timeout):
        if self.is_lost:
            raise MeetAgain("a rank is lost")
        each = self.world.exchange(self.rank, tensor)
        tensor.copy_(each.max(0).values if op == "max" else each.sum(0))
        return tensor

    def begin_all_reduce(self, tensor, op, timeout):
        self.all_reduce(tensor, op, timeout)
        return self

    def wait(self):
        pass

    def all_gather(self, tensor, timeout):
        return self.world.exchange(self.rank, tensor)


def in_ranks(size, work):
    """Runs `work(session)` on each rank; returns what they return, by rank."""
    world = FakeExchange(size, torch.stack)
    return where_nobody_fails(in_threads(size, lambda rank: work(FakeSession(world, rank))))


class Gradients(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.network = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
        self.inputs, self.labels = torch.randn(6, 4), torch.tensor([0, 1, 1, 0, 1, 0])

    def test_parameters_whose_type_a_program_changes_are_reduced_in_it(self):
        reducer = StepReducer(Holdings(self.network, torch.optim.SGD(
            self.network.parameters(), lr=0.1)))
        before = reducer._signature
        self.network.double()  # which keeps the parameters, and changes what they hold
        reducer._look()
        self.assertEqual({one.dtype for one in reducer._gradient_flats}, {torch.float64})
        self.assertNotEqual(reducer._signature, before)

    def backward(self, model, ids):
        loss = nn.functional.cross_entropy(model(self.inputs[ids]), self.labels[ids])
        loss.backward()
        return float(loss.detach())

    def reduce(self, slices, change=lambda model, rank: None):
        """Gradients of all ranks and the sum, where rank r has slices[r]."""
        def work(session):
            model = copy.deepcopy(self.network)
            model.register_buffer("constant", torch.tensor([0.1]))
            model.register_buffer("mean", torch.zeros(1))
            model.register_buffer("count", torch.zeros((), dtype=torch.int64))
            reducer = StepReducer(Holdings(model, torch.optim.SGD(model.parameters(), lr=1.0)))
            reducer.begin_step()
            ids = slices[session.rank]
            loss = self.backward(model, ids or [0])
            change(model, session.rank)
            total = reducer.reduce(session, StepShare(ids, 6, loss), 1)
            return model, total
        return in_ranks(len(slices), work)

    def test_are_those_of_the_whole_batch_however_it_is_cut(self):
        whole = copy.deepcopy(self.network)
        loss = self.backward(whole, list(range(6)))
        for slices in ([[0, 1, 2, 3], [4, 5]], [[0], [1, 2], [3, 4, 5]], [[], [0, 1, 2, 3, 4, 5]]):
            for model, total in self.reduce(slices):
                self.assertAlmostEqual(total.loss, loss, places=6)
                self.assertEqual(total.ids.tolist(), list(range(6)))
                for own, expected in zip(model.parameters(), whole.parameters()):
                    # Sums in another order, of numbers about 1.
                    torch.testing.assert_close(own.grad, expected.grad, rtol=0, atol=1e-6)

    def test_what_a_rank_without_samples_came_to_does_not_count(self):
        def spoil(model, rank):
            if rank == 0:
                for parameter in model.parameters():
                    parameter.grad.fill_(float("nan"))
        for model, _ in self.reduce([[], [0, 1, 2, 3, 4, 5]], spoil):
            self.assertTrue(all(bool(one.grad.isfinite().all()) for one in model.parameters()))

    def test_a_parameter_that_no_rank_has_used_has_no_gradient(self):
        def drop(model, rank):
            model[2].bias.grad = None
            if rank == 0:
                model[0].bias.grad = None
        for model, _ in self.reduce([[0, 1, 2], [3, 4, 5]], drop):
            self.assertIsNone(model[2].bias.grad)
            self.assertIsNotNone(model[0].bias.grad)

    def test_buffers_that_have_changed_are_means_and_others_keep_their_bits(self):
        def change(model, rank):
            model.mean.fill_(rank)
            model.count.fill_(rank + 1)
        for model, _ in self.reduce([[0, 1], [2, 3], [4, 5]], change):
            torch.testing.assert_close(model.mean, torch.ones(1))
            self.assertEqual(int(model.count), 3)
            self.assertTrue(torch.equal(model.constant, torch.tensor([0.1])))

    def test_a_step_that_fails_changes_nothing_but_what_is_taken_back(self):
        model = nn.BatchNorm1d(4)
        before = [one.clone() for one in model.buffers()]
        reducer = StepReducer(Holdings(model, torch.optim.SGD(model.parameters(), lr=1.0)))
        reducer.begin_step()
        model(self.inputs).sum().backward()
        gradient = model.weight.grad.clone()
        session = FakeSession(FakeExchange(1, torch.stack), 0)
        session.is_lost = True
        with self.assertRaises(MeetAgain):
            reducer.reduce(session, StepShare([0], 1, 1.0), 1)
        self.assertTrue(torch.equal(model.weight.grad, gradient))
        reducer.forget_step()
        self.assertTrue(all(map(torch.equal, model.buffers(), before)))


if __name__ == "__main__":
    unittest.main()
