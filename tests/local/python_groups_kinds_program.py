"""What torch builds on its groups, on those of lockstep.torch.groups: each part checks itself. Four
ranks."""

import tempfile

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import lockstep
import lockstep.torch.groups
from lockstep.torch.groups.control import control
from lockstep.torch.groups.facade import GroupFacade

SIZE = 4


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def train(model, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 8) * (dist.get_rank() + 1)).sum().backward()
        optimizer.step()


def check_calls():
    rank = dist.get_rank()
    total = torch.ones(3)
    dist.all_reduce(total)
    assert total.tolist() == [SIZE] * 3, total
    ranks = torch.empty(SIZE)
    dist.all_gather_into_tensor(ranks, torch.tensor([float(rank)]))
    assert ranks.tolist() == list(range(SIZE)), ranks
    part = torch.empty(1)
    dist.reduce_scatter_tensor(part, torch.ones(SIZE))
    assert part == SIZE, part
    blocks = [torch.empty(1) for _ in range(SIZE)]
    dist.all_gather(blocks, torch.tensor([float(rank)]))
    assert blocks == list(range(SIZE)), blocks
    found = torch.tensor([rank])
    dist.broadcast(found, src=2)
    assert found == 2, found
    dist.reduce(total, dst=1)
    out = torch.empty(SIZE)
    dist.all_to_all_single(out, torch.arange(SIZE, dtype=torch.float32) * (rank + 1))
    assert out.tolist() == [rank * (one + 1) for one in range(SIZE)], out
    gathered = [torch.empty(1) for _ in range(SIZE)] if rank == 0 else None
    dist.gather(torch.tensor([float(rank)]), gathered)
    own = torch.empty(1)
    dist.scatter(own, gathered)
    assert own == rank, own
    dist.barrier()


def check_futures():
    tensor = torch.ones(2)
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    future.wait()
    assert future.done() and tensor[0] == SIZE, tensor
    other = torch.ones(1)
    with dist.distributed_c10d._coalescing_manager():
        dist.all_reduce(tensor)
        dist.all_reduce(other)
    assert (tensor[0], other) == (SIZE ** 2, SIZE), (tensor, other)


def check_between_ranks():
    rank = dist.get_rank()
    got = torch.empty(1)
    calls = [dist.P2POp(dist.isend, torch.tensor([float(rank)]), (rank + 1) % SIZE),
             dist.P2POp(dist.irecv, got, (rank - 1) % SIZE)]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    assert got == (rank - 1) % SIZE, got


def check_objects():
    each = [None] * SIZE
    dist.all_gather_object(each, {"rank": dist.get_rank()})
    assert each[-1]["rank"] == SIZE - 1, each
    one = [42 if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(one)
    assert one == [42], one


def check_functional():
    assert functional.all_reduce(torch.ones(2), "sum", dist.group.WORLD)[0] == SIZE
    compiled = torch.compile(
        lambda x: functional.all_reduce(x * 2, "sum", dist.group.WORLD) + 1,
        backend="aot_eager", fullgraph=True)
    assert compiled(torch.ones(2))[0] == 2 * SIZE + 1


def check_groups():
    group = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        total = torch.ones(1)
        dist.all_reduce(total, group=group)
        assert total == 2, total
    try:
        dist.split_group(split_ranks=[[0, 1], [2, 3]])
    except RuntimeError as error:
        assert "split" in str(error), error
    else:
        raise AssertionError("split_group made a group that is no facade")


def check_meshes():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "shard"))
    total = torch.ones(1)
    dist.all_reduce(total, group=mesh["shard"].get_group())
    assert total == 2, total
    flat = init_device_mesh("cpu", (SIZE,))
    spread = distribute_tensor(torch.arange(8.0), flat, [Shard(0)])
    assert spread.redistribute(placements=[Replicate()]).to_local().sum() == 28
    model = network()
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    train(fully_shard(model, mesh=mesh))
    train(fully_shard(network()))


def check_models():
    model = nn.parallel.DistributedDataParallel(network())
    train(model)
    train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1))
    train(FullyShardedDataParallel(network(), device_id=torch.device("cpu")))


def check_checkpoints():
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    state = {"model": network().state_dict()}
    checkpoint.save(state, checkpoint_id=folder[0])
    checkpoint.load(state, checkpoint_id=folder[0])


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    assert (dist.get_backend(), dist.get_world_size()) == ("gloo", SIZE)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert isinstance(backend, GroupFacade), backend
    for check in (check_calls, check_futures, check_between_ranks, check_objects, check_functional,
                  check_groups, check_meshes, check_models, check_checkpoints):
        check()
        print(f"{check.__name__} is right", flush=True)
    control().session.finish()
    dist.destroy_process_group()
    assert not control()._facades, control()._facades
    control().session.close()
    print("the end is right", flush=True)


if __name__ == "__main__":
    lockstep.run(main)
