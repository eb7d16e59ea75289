"""DistributedOptimizer by ranks that are threads, beside one process that has the whole batch."""

import copy
import unittest
import unittest.mock
import warnings

import torch
from torch import nn

from lockstep.errors import InvalidArgument, Mismatch
from lockstep.horovod import process
from lockstep.horovod import torch as hvd
from lockstep.horovod.torch.world_test import in_ranks, results
from lockstep.torch import gradients

STEPS = 4
PATIENT = {"rtol": 0, "atol": 1e-6}  # sums in another order, of numbers about 1


class Towers(nn.Module):
    """Two towers, whose gradients come in an order that depends on the rank, and one that nobody
    uses."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.idle = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, inputs, is_turned=False):
        if is_turned:
            left, right = self.left(inputs), self.right(inputs)
        else:
            right, left = self.right(inputs), self.left(inputs)
        return left.tanh() * right


class Optimizer(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.model = Towers()
        self.inputs, self.labels = torch.randn(12, 4), torch.randint(0, 3, (12,))
        # A bucket for each parameter or two.
        patch = unittest.mock.patch.object(gradients, "_BUCKET_BYTES", 20)
        patch.start()
        self.addCleanup(patch.stop)

    def optimizer_of(self, model, **options):
        return torch.optim.SGD(
            model.parameters(), lr=0.5, **{"momentum": 0.9, "weight_decay": 0.01, **options})

    def loss(self, model, begin, stride, is_turned=False):
        return nn.functional.cross_entropy(
            model(self.inputs[begin::stride], is_turned), self.labels[begin::stride])

    def whole(self, scale=1.0):
        """What one process comes to that has the whole batch."""
        model = copy.deepcopy(self.model)
        optimizer = self.optimizer_of(model)
        for _ in range(STEPS):
            optimizer.zero_grad()
            (self.loss(model, 0, 1) * scale).backward()
            optimizer.step()
        return model

    def check(self, models, expected, **tolerance):
        for model in models:
            for own, first in zip(model.parameters(), models[0].parameters()):
                self.assertTrue(torch.equal(own, first))
            torch.testing.assert_close(
                dict(model.named_parameters()), dict(expected.named_parameters()),
                **{**PATIENT, **tolerance})

    def train(self, size, passes=1, **options):
        """The models of all ranks; each pass has its part of the rank's samples."""
        def work(rank):
            model = copy.deepcopy(self.model)
            optimizer = hvd.DistributedOptimizer(
                self.optimizer_of(model), named_parameters=model.named_parameters(),
                backward_passes_per_step=passes, **options)
            for _ in range(STEPS):
                optimizer.zero_grad()
                for number in range(passes):
                    loss = self.loss(model, rank + size * number, size * passes, rank == 1)
                    (loss / passes).backward()
                optimizer.step()
            self.assertIsNone(model.idle.weight.grad)
            self.assertEqual(process.current()._session.reports, list(range(1, STEPS + 1)))
            return model
        return results(size, work)

    def test_weights_are_those_of_the_whole_batch_whatever_order_gradients_come_in(self):
        for size in (1, 2, 3):
            self.check(self.train(size), self.whole())

    def test_several_passes_are_one_step(self):
        self.check(self.train(2, passes=3), self.whole())

    def test_sums_predivided_and_compressed(self):
        self.check(self.train(2, op=hvd.Sum), self.whole(scale=2.0), atol=1e-5)
        self.check(self.train(2, gradient_predivide_factor=2.0), self.whole())
        self.check(self.train(2, compression=hvd.Compression.fp16), self.whole(), atol=1e-2)

    def test_a_parameter_that_one_rank_uses_has_its_mean_on_all(self):
        def work(rank):
            model = Towers()
            optimizer = hvd.DistributedOptimizer(self.optimizer_of(model))
            layer = model.left if rank == 0 else model.right
            layer(torch.ones(1, 4)).sum().backward()
            optimizer.synchronize()
            return [one.bias.grad for one in (model.left, model.right, model.idle)]
        for left, right, idle in results(2, work):
            torch.testing.assert_close((left, right), (torch.full((3,), 0.5),) * 2)
            self.assertIsNone(idle)

    def test_gradients_can_be_clipped_between_their_sum_and_the_step(self):
        def work(rank):
            model = copy.deepcopy(self.model)
            optimizer = hvd.DistributedOptimizer(self.optimizer_of(model))
            self.loss(model, rank, 2).backward()
            optimizer.synchronize()
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            with optimizer.skip_synchronize():
                optimizer.step()
            return model
        expected = copy.deepcopy(self.model)
        optimizer = self.optimizer_of(expected)
        self.loss(expected, 0, 1).backward()
        nn.utils.clip_grad_norm_(expected.parameters(), 0.01)
        optimizer.step()
        # Around all ranks: they are threads, and filters of warnings are the process's.
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.check(results(2, work), expected)
        self.assertEqual([str(one.message) for one in told if "synchronize" in str(one.message)],
                         [])

    def test_it_is_an_optimizer_of_the_same_kind_state_and_schedule(self):
        def work(rank):
            model = copy.deepcopy(self.model)
            inner = torch.optim.Adam(model.parameters(), lr=0.1)
            optimizer = hvd.DistributedOptimizer(inner)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
            self.loss(model, rank, 2).backward()
            optimizer.step()
            scheduler.step()
            self.assertIsInstance(optimizer, torch.optim.Adam)
            self.assertIs(optimizer.param_groups, inner.param_groups)
            self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 0.1 * 0.1)
            return optimizer.state_dict()["state"][0]["exp_avg"]
        first, second = results(2, work)
        self.assertTrue(torch.equal(first, second))

    def test_what_would_go_wrong_is_refused(self):
        def work(rank):
            model = Towers()
            optimizer = hvd.DistributedOptimizer(
                self.optimizer_of(model), named_parameters=model.named_parameters())
            for words, call in (
                ("closure", lambda: optimizer.step(lambda: 1.0)),
                ("add_param_group", lambda: optimizer.add_param_group({"params": []})),
                ("expected 1 or more", lambda: optimizer.set_backward_passes_per_step(0)),
            ):
                with self.assertRaisesRegex(InvalidArgument, words):
                    call()
            self.loss(model, 0, 1).backward()
            with self.assertRaisesRegex(InvalidArgument, "zero_grad: called between"):
                optimizer.zero_grad()
            with self.assertRaisesRegex(InvalidArgument, r'"(left|right)\..*more than backward'):
                self.loss(model, 0, 1).backward()
            optimizer.load_state_dict(optimizer.state_dict())
            optimizer.zero_grad()
        results(1, work)

    def test_what_is_not_offered_is_refused_by_name(self):
        model = Towers()
        names = [("same", parameter) for parameter in model.parameters()]
        for words, options in (
            ("op: Adasum found", {"op": hvd.Adasum}),
            ("op: Min found, expected Average or Sum", {"op": hvd.Min}),
            ("num_groups, groups: 2", {"num_groups": 2}),
            ("compression: ", {"compression": object}),
            ("expected op Average",
             {"op": hvd.Sum, "gradient_predivide_factor": 2.0}),
            ("backward_passes_per_step: 0 found", {"backward_passes_per_step": 0}),
            ("same found twice", {"named_parameters": names}),
            ("no name found for parameter 0.1", {"named_parameters": names[:1]}),
            ("expected pairs", {"named_parameters": model.parameters()}),
        ):
            with self.subTest(words):
                found, = in_ranks(1, lambda rank: hvd.DistributedOptimizer(
                    self.optimizer_of(model), **options))
                self.assertIsInstance(found, InvalidArgument)
                self.assertIn(words, str(found))

    def test_sparse_gradients_are_refused_or_made_dense(self):
        def work(rank, **options):
            model = nn.Embedding(4, 2, sparse=True)
            optimizer = hvd.DistributedOptimizer(
                torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(), **options)
            model(torch.tensor([rank, 2])).sum().backward()
            optimizer.synchronize()
            return model.weight.grad.tolist()
        self.assertEqual(results(2, lambda rank: work(rank, sparse_as_dense=True)),
                         [[[0.5, 0.5], [0.5, 0.5], [1.0, 1.0], [0.0, 0.0]]] * 2)
        for error in in_ranks(1, work):
            self.assertIsInstance(error, InvalidArgument)
            self.assertIn('"weight" is torch.sparse_coo', str(error))

    def test_ranks_with_other_models_are_told_of_both(self):
        def work(rank):
            model = nn.Linear(2, 2 + rank)
            optimizer = hvd.DistributedOptimizer(
                self.optimizer_of(model), model.named_parameters())
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        for error in in_ranks(2, work):
            self.assertIsInstance(error, Mismatch)
            self.assertRegex(str(error), r"rank 0 calls allreduce .gradients 1 of 1. of float32 "
                             r"\[8\].*rank 1 calls .* \[11\]")


if __name__ == "__main__":
    unittest.main()
