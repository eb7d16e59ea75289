"""Copies whole states from one rank to all others."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Union

import torch

from lockstep.horovod.arguments import check_root
from lockstep.horovod.header import Call, Kind
from lockstep.horovod.torch.exchanges import broadcast_
from lockstep.horovod.torch.world import world
from lockstep.torch import state as states


def broadcast_parameters(
    params: Union[Mapping[str, torch.Tensor], Iterable[Any]], root_rank: int
) -> None:
    """Copies `params` from rank `root_rank` to all ranks, in place. `params`: `model.state_dict()`,
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
    """Copies settings and state of the optimizer from rank `root_rank` to all ranks. Errors:
    InvalidArgument (the state has more than tensors, numbers and strings), those of `World`."""
    state = broadcast_state("optimizer state", optimizer.state_dict(), root_rank)
    if world().rank != root_rank:
        optimizer.load_state_dict(state)


def broadcast_state(name: str, state: Any, root_rank: int) -> Any:
    """What is in a `state_dict` of rank `root_rank`, on all ranks. Errors: as above."""
    check_root(root_rank, name)
    if world().rank == root_rank:
        states.flatten(state)  # what cannot travel is this rank's error alone
    return world().carry_out(
        Call(Kind.BROADCAST, name, "a state", root=root_rank),
        lambda session, seconds: states.broadcast_state(session, state, root_rank, seconds))
