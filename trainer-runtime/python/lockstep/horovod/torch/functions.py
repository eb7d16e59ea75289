"""Whole states from one rank to all others."""

from __future__ import annotations

import pickle
from typing import Any, Iterable, Mapping, Optional, Union

import torch

from lockstep.horovod.torch.arguments import ProcessSet, check_process_set, check_root
from lockstep.horovod.torch.exchanges import broadcast_
from lockstep.horovod.torch.header import Call, Kind
from lockstep.horovod.torch.world import world
from lockstep.torch.state import raw_bytes


def broadcast_parameters(
    params: Union[Mapping[str, torch.Tensor], Iterable[Any]], root_rank: int
) -> None:
    """Those of rank `root_rank` to all ranks, in place: of `model.state_dict()`,
    `model.named_parameters()` or `model.parameters()`. Errors: InvalidArgument, those of
    `World`."""
    if isinstance(params, Mapping):
        pairs = sorted(params.items())
    else:
        pairs = [one if isinstance(one, tuple) else (f"parameter {place}", one)
                 for place, one in enumerate(params)]
    for name, tensor in pairs:
        broadcast_(tensor, root_rank, name)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    """The settings and the state of rank `root_rank`'s to all ranks. Errors: InvalidArgument (a
    state of other things than tensors, numbers and texts), those of `World`."""
    state = broadcast_state("optimizer state", optimizer.state_dict(), root_rank)
    if world().rank != root_rank:
        optimizer.load_state_dict(state)


def broadcast_state(name: str, state: Any, root_rank: int) -> Any:
    """What is in a `state_dict` of rank `root_rank`, on all ranks. Errors: as above."""
    check_root(root_rank, name)
    return world().broadcast_state(Call(Kind.BROADCAST, name, "a state", root=root_rank), state)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> Any:
    """`obj` of rank `root_rank` on all ranks, pickled on the way. That of others is not looked at.
    Errors: InvalidArgument, those of pickle and of `World`."""
    check_process_set(process_set)
    here = world()
    name = here.name("broadcast_object", name)
    check_root(root_rank, name)
    is_root = here.rank == root_rank
    own = _pickled(obj) if is_root else torch.empty(0, dtype=torch.uint8)
    call = Call(Kind.BROADCAST, name, "an object", root=root_rank, length=own.numel())
    received = here.broadcast(
        call, lambda length: own if is_root else torch.empty(length, dtype=torch.uint8))
    return obj if is_root else pickle.loads(raw_bytes(received))


def allgather_object(
    obj: Any, name: Optional[str] = None, process_set: Optional[ProcessSet] = None
) -> list[Any]:
    """`obj` of each rank, pickled on the way, in their order. Errors: as above."""
    check_process_set(process_set)
    name = world().name("allgather_object", name)
    own = _pickled(obj)
    call = Call(Kind.ALLGATHER, name, "objects", length=own.numel())
    return [pickle.loads(raw_bytes(one)) for one in world().gather(call, own)]


def _pickled(obj: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(pickle.dumps(obj)), dtype=torch.uint8)
