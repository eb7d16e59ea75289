"""Horovod's calls that reduce nothing. All ranks make the same calls in the same order with the
same names. Tensors on GPUs travel through the host's memory. Errors: InvalidArgument (only this
call fails, on this rank), and those of `World`."""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence, Union

import torch

from lockstep.horovod.arguments import ProcessSet, check_process_set, check_root, splits_of
from lockstep.horovod.header import Call, Kind
from lockstep.horovod.torch.arguments import (
    Handle,
    check_detached,
    check_rows,
    check_tensor,
    staged,
    what,
)
from lockstep.horovod.torch.world import world
from lockstep.torch.state import bytes_of


def allgather(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: Optional[ProcessSet] = None
) -> torch.Tensor:
    """Concatenates the rows of all ranks in rank order. Ranks may have different numbers of rows.
    Shapes: tensor [rows, ...]; result [sum of rows, ...]."""
    check_process_set(process_set)
    name = world().name("allgather", name)
    rows = check_rows(tensor, name)
    own = bytes_of(staged(tensor))
    call = Call(Kind.ALLGATHER, name, rows, length=own.numel())
    return _rows(world().gather(call, own), tensor)


def allgather_async(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: Optional[ProcessSet] = None
) -> Handle:
    """Like the call without `async`; it is already done when it returns."""
    return _done(allgather(tensor, name, process_set))


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> torch.Tensor:
    """Returns a new tensor with the values of `tensor` on rank `root_rank`."""
    check_detached(tensor, name or "broadcast")
    return broadcast_(tensor.clone(), root_rank, name, process_set)


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> Handle:
    """Like the call without `async`; it is already done when it returns."""
    return _done(broadcast(tensor, root_rank, name, process_set))


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> torch.Tensor:
    """Copies `tensor` from rank `root_rank` to all ranks, in place."""
    check_process_set(process_set)
    name = world().name("broadcast", name)
    check_tensor(tensor, name)
    check_root(root_rank, name)
    there = staged(tensor)
    own = bytes_of(there)
    call = Call(Kind.BROADCAST, name, what(tensor), root=root_rank, length=own.numel())
    world().broadcast(call, lambda _: own)
    if there.data_ptr() != tensor.data_ptr():
        with torch.no_grad():
            tensor.copy_(there)
    return tensor


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> Handle:
    """Like the call without `async`; it is already done when it returns."""
    return _done(broadcast_(tensor, root_rank, name, process_set))


def alltoall(
    tensor: torch.Tensor,
    splits: Any = None,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> Union[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Sends the next `splits[r]` rows of `tensor` to each rank r; without splits, the same number
    to each. Returns the rows for this rank; with splits, also how many came from each rank. All
    rows travel to all ranks."""
    check_process_set(process_set)
    here = world()
    name = here.name("alltoall", name)
    rows = check_rows(tensor, name)
    given = torch.tensor(splits_of(
        None if splits is None else torch.as_tensor(splits).to(torch.int64).tolist(),
        tensor.shape[0], name))
    own = torch.cat([bytes_of(given), bytes_of(staged(tensor))])
    call = Call(Kind.ALLTOALL, name, rows, length=own.numel())
    blocks, counts = [], []
    row_bytes = math.prod(tensor.shape[1:]) * tensor.element_size()
    for block in here.gather(call, own):
        theirs = block[: bytes_of(given).numel()].clone().view(torch.int64).tolist()
        begin = bytes_of(given).numel() + row_bytes * sum(theirs[: here.rank])
        blocks.append(block[begin : begin + row_bytes * theirs[here.rank]])
        counts.append(theirs[here.rank])
    received = _rows(blocks, tensor)
    return received if splits is None else (received, torch.tensor(counts, dtype=torch.int32))


def alltoall_async(
    tensor: torch.Tensor,
    splits: Any = None,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> Handle:
    """Like the call without `async`; it is already done when it returns."""
    return _done(alltoall(tensor, splits, name, process_set))


def barrier(process_set: Optional[ProcessSet] = None) -> None:
    """Waits until all ranks have called it."""
    check_process_set(process_set)
    world().exchange(Call(Kind.BARRIER))


def join(device: int = -1) -> int:
    """For a rank without more data: takes part with zeros in the other ranks' allreduce of Average
    and Sum, until all ranks have called `join`. Returns the rank that called it last. Averages are
    over all ranks. `device` has no effect."""
    return world().join()


def _done(result: Any) -> Handle:
    return Handle([], lambda: result)


def _rows(blocks: Sequence[torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    """Tensors' memories one below the other."""
    whole = torch.cat(list(blocks)).view(like.dtype)
    return whole.reshape(-1, *like.shape[1:]).to(like.device)
