"""A DistributedDataParallel program that knows nothing of Lockstep but for the backend's name, its
first argument. Each rank prints its gradients' hash and sum; then calls of each kind check
themselves."""

import hashlib
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

if sys.argv[1] == "lockstep":
    import lockstep
    import lockstep.torch.distributed


def train(rank, size):
    torch.manual_seed(1)
    inputs, targets = torch.randn(60, 8), torch.randint(0, 2, (60,))
    torch.manual_seed(rank)  # DistributedDataParallel gives rank 0's weights to all
    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(),
        torch.nn.Linear(16, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs[rank::size]), targets[rank::size])
        loss.backward()
        optimizer.step()
    gradients = torch.cat([one.grad.reshape(-1) for one in model.parameters()])
    digest = hashlib.sha256(str(gradients.tolist()).encode()).hexdigest()[:16]
    print(f"gradients {digest} {' '.join(repr(one) for one in gradients.tolist())}", flush=True)


def check_calls(rank, size):
    own = torch.arange(6.0).reshape(2, 3) + rank
    each = [own - rank + one for one in range(size)]
    for op, expected in ((dist.ReduceOp.SUM, sum(each)), (dist.ReduceOp.MIN, each[0]),
                         (dist.ReduceOp.MAX, each[-1])):
        found = own.clone()
        dist.all_reduce(found, op)
        assert torch.equal(found, expected), (op, found)
    turned = own.clone().t()  # does not lie side by side
    dist.all_reduce(turned)
    assert torch.equal(turned, sum(each).t()), turned
    got = own.clone()
    dist.broadcast(got, src=1)
    assert torch.equal(got, each[1]), got
    blocks = [torch.empty(2, 3) for _ in range(size)]
    dist.all_gather(blocks, own)
    assert all(map(torch.equal, blocks, each)), blocks
    if sys.argv[1] == "lockstep":  # gloo gathers no booleans
        flags = [torch.empty(2, dtype=torch.bool) for _ in range(size)]
        dist.all_gather(flags, torch.tensor([True, rank == 1]))
        expected = [[True, one == 1] for one in range(size)]
        assert [flag.tolist() for flag in flags] == expected, flags
        check_calls_on_whole_tensors(rank, size)
    dist.barrier()
    print("calls are right", flush=True)


def check_calls_on_whole_tensors(rank, size):
    """Those that FSDP makes. gloo can do neither: it gathers no booleans and has no AVG."""
    flags = torch.empty(size, 2, dtype=torch.bool)
    dist.all_gather_into_tensor(flags, torch.tensor([[True, rank == 1]]))
    assert flags.tolist() == [[True, one == 1] for one in range(size)], flags
    part = torch.empty(2)
    dist.reduce_scatter_tensor(part, torch.arange(2. * size) * (rank + 1), dist.ReduceOp.AVG)
    assert torch.allclose(part, torch.arange(2. * rank, 2. * rank + 2) * (size + 1) / 2), part


def check_calls_between_ranks(rank, size):
    """Those that one rank makes another call of than the others."""
    own = torch.arange(3) + 10 * rank
    each = [torch.arange(3) + 10 * one for one in range(size)]
    got = [torch.empty(3, dtype=torch.int64) for _ in range(size)]
    dist.gather(own, got if rank == 1 else None, dst=1)
    assert rank != 1 or all(map(torch.equal, got, each)), got
    one = torch.empty(3, dtype=torch.int64)
    dist.scatter(one, each if rank == 0 else None, src=0)
    assert torch.equal(one, own), one
    sent = dist.isend(own, (rank + 1) % size)  # around the ring
    dist.recv(one, (rank - 1) % size)
    sent.wait()
    assert torch.equal(one, each[rank - 1]), one
    if rank == 0:
        senders = sorted(dist.recv(one) for _ in range(size - 1))
        assert senders == list(range(1, size)), senders
    else:
        dist.send(own, 0)
    parts = [torch.full((other + 1,), 100 * rank + other) for other in range(size)]
    taken = [torch.empty(rank + 1, dtype=torch.int64) for _ in range(size)]
    if sys.argv[1] == "lockstep":  # gloo has no lists
        dist.all_to_all(taken, parts)
        assert [part.tolist() for part in taken] == [
            [100 * other + rank] * (rank + 1) for other in range(size)], taken
    flat = torch.empty(size * (rank + 1), dtype=torch.int64)
    dist.all_to_all_single(flat, torch.cat(parts), [rank + 1] * size, [len(one) for one in parts])
    assert flat.tolist() == [100 * other + rank for other in range(size) for _ in range(rank + 1)]
    objects = [None]
    dist.scatter_object_list(objects, [{"for": one} for one in range(size)], src=0)
    assert objects == [{"for": rank}], objects
    print("calls between ranks are right", flush=True)


def check_groups(rank, size):
    """Of one rank, of some, and of all beside the first."""
    for ranks in ([0], [0, 2], list(range(size))):
        group = dist.new_group(ranks)
        if rank not in ranks:
            continue
        total = torch.tensor([float(rank)])
        dist.all_reduce(total, group=group)
        assert total.item() == sum(ranks), total
        dist.barrier(group)
        blocks = [torch.empty(1) for _ in ranks]
        dist.all_gather(blocks, torch.tensor([float(rank)]), group=group)
        assert [block.item() for block in blocks] == ranks, blocks
    print("groups are right", flush=True)


def check_end():
    """The session ends with the group."""
    dist.destroy_process_group()
    if sys.argv[1] == "lockstep":
        lockstep.torch.open().close()
    print("the end is right", flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group(sys.argv[1])
    rank, size = dist.get_rank(), dist.get_world_size()
    train(rank, size)
    check_calls(rank, size)
    dist.barrier()
    check_calls_between_ranks(rank, size)
    check_groups(rank, size)
    check_end()


main()
