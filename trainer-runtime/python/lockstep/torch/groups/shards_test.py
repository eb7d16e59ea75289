"""What a rank takes over from one that holds the same shard."""

import unittest

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate

from lockstep.errors import InvalidArgument
from lockstep.torch.groups.shards import ShardHoldings, _layout, _placed, local
from lockstep.torch.state import FlatState, flatten, unflatten


def through_json(state):
    """As another rank gets it."""
    flat = flatten(state)
    copies = {name: one.clone() for name, one in flat.tensors.items()}
    return unflatten(FlatState(flat.tree, copies))


class Shards(unittest.TestCase):
    """Of rank 1 of 2: of 5 rows it has the last 2."""

    @classmethod
    def setUpClass(cls):
        from torch.testing._internal.distributed.fake_pg import FakeStore
        dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)

    @classmethod
    def tearDownClass(cls):
        dist.destroy_process_group()

    def holdings(self, **named):
        torch.manual_seed(3)
        model = torch.nn.Linear(3, 5)
        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
        return ShardHoldings(model, torch.optim.Adam(model.parameters(), lr=0.1), **named)

    def step(self, holdings):
        for one in holdings.parameters().values():
            one.grad = torch.ones_like(one)
        holdings.optimizer.step()

    def test_a_shard_of_another_length_than_the_others_steps_on(self):
        donor, own = self.holdings(), self.holdings()
        self.step(donor)
        own.load_shard(through_json(donor.shard()))
        for holdings in (donor, own):
            self.step(holdings)
        for name, parameter in own.parameters().items():
            other = donor.parameters()[name]
            self.assertTrue(torch.equal(local(parameter), local(other)), name)
            mean = own.optimizer.state[parameter]["exp_avg"]
            self.assertEqual((mean.shape, mean.stride()), (parameter.shape, parameter.stride()))
            self.assertTrue(torch.equal(
                local(mean), local(donor.optimizer.state[other]["exp_avg"])), name)

    def test_an_older_shard_of_this_rank_has_what_the_optimizer_had_then(self):
        own = self.holdings()
        before = through_json(own.shard())
        self.step(own)
        own.load_shard(before)
        self.assertEqual(len(own.optimizer.state), 0)
        for name, parameter in own.parameters().items():
            self.assertTrue(torch.equal(local(parameter), before["parameters"][name]), name)

    def test_a_tensor_of_the_optimizer_lies_where_that_of_the_other_lay(self):
        parameter = torch.nn.Parameter(torch.empty(2, device="meta"))
        for device in ("meta", "cpu"):
            step = _placed(parameter, torch.tensor(1.0), _layout(torch.tensor(1.0, device=device)))
            self.assertEqual(step.device.type, device)

    def test_extra_with_a_tensor_that_is_spread_over_ranks_is_refused(self):
        mesh = init_device_mesh("cpu", (2,))

        class Mean:
            def state_dict(self):
                return {"weight": DTensor.from_local(torch.ones(2), mesh, [Replicate()])}

            def load_state_dict(self, state):
                pass

        with self.assertRaisesRegex(InvalidArgument, "^state: extra/ema/weight: DTensor found"):
            self.holdings(extra={"ema": Mean()})


if __name__ == "__main__":
    unittest.main()
