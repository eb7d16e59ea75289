"""Models and optimizers that cannot forget a step are refused by name."""

import unittest

import torch
import torch.distributed as dist
from torch import nn

from lockstep.errors import InvalidArgument

from lockstep.torch.groups.models import Ddp, check_optimizer
from lockstep.torch.groups.shards import adapter_of


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from torch.testing._internal.distributed.fake_pg import FakeStore
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)

    @classmethod
    def tearDownClass(cls):
        dist.destroy_process_group()

    def refusal(self, call, *arguments):
        with self.assertRaises(InvalidArgument) as caught:
            call(*arguments)
        return str(caught.exception)

    def ddp(self, **named):
        return nn.parallel.DistributedDataParallel(nn.Linear(4, 4), **named)

    def test_data_parallel_is_taken_and_its_module_is_what_checkpoints_hold(self):
        model = self.ddp()
        adapter = adapter_of(model)
        self.assertIsInstance(adapter, Ddp)
        self.assertIs(adapter.bare, model.module)

    def test_a_static_graph(self):
        self.assertIn("static_graph=True found",
                      self.refusal(adapter_of, self.ddp(static_graph=True)))

    def test_a_communication_hook_before_the_job_and_after_it(self):
        model = self.ddp()
        adapter = adapter_of(model)
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
        model.register_comm_hook(None, default_hooks.allreduce_hook)
        self.assertIn("communication hook found", self.refusal(adapter_of, model))
        self.assertIn("communication hook found", self.refusal(adapter.renew))

    def test_a_built_in_communication_hook(self):
        model = self.ddp()
        model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
        self.assertIn("communication hook found", self.refusal(adapter_of, model))

    def test_fsdp1(self):
        from torch.distributed.fsdp import FullyShardedDataParallel
        model = FullyShardedDataParallel(nn.Linear(4, 4), device_id=torch.device("cpu"))
        self.assertIn("(FSDP1) found at the model itself", self.refusal(adapter_of, model))
        self.assertIn("(FSDP1) found at 0", self.refusal(adapter_of, nn.Sequential(model)))

    def test_data_parallel_of_a_part(self):
        self.assertIn("DistributedDataParallel found at 0",
                      self.refusal(adapter_of, nn.Sequential(self.ddp())))

    def test_a_bare_module_that_data_parallel_trains(self):
        model = self.ddp()
        module = model.module
        for one in (module, nn.Sequential(module)):
            self.assertIn("whose parameters a DistributedDataParallel trains",
                          self.refusal(adapter_of, one))
        del model
        self.assertIs(adapter_of(module).bare, module)

    def test_an_optimizer_whose_step_calls_other_ranks(self):
        from torch.distributed.optim import ZeroRedundancyOptimizer
        optimizer = ZeroRedundancyOptimizer(nn.Linear(4, 4).parameters(), torch.optim.SGD, lr=0.1)
        self.assertIn("ZeroRedundancyOptimizer found", self.refusal(check_optimizer, optimizer))

    def test_a_job_without_groups(self):
        from lockstep.torch.groups import Job
        self.assertIn("no group of lockstep.torch.groups found",
                      self.refusal(lambda: Job(model=None, optimizer=None, sampler=None)))


if __name__ == "__main__":
    unittest.main()
