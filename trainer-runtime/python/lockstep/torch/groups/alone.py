"""What a replacement's set-up is answered, which runs before it meets anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import torch

from lockstep.errors import LockstepError, Status

if TYPE_CHECKING:
    from lockstep.torch.groups.facade import GroupFacade

# Calls that leave what this rank holds as it is: all others are taken to hold the same.
_AS_IT_IS = ("allreduce", "allreduce_coalesced", "broadcast", "reduce", "barrier")


def answer_alone(
    group: GroupFacade, name: str, object_call: Optional[str], arguments: tuple[Any, ...]
) -> None:
    """As if all ranks of `group` held what this one holds, which is enough for constructors that
    compare shapes and give weights to each other: the state comes with the meeting. `object_call`:
    the function for objects that the call is made by, if any.

    Errors: LockstepError (a call whose answer only the other ranks have).
    """
    if object_call is not None or name not in (*_AS_IT_IS, *_BY_NAME):
        raise LockstepError(
            f"{object_call or name}: called by a process that replaces a lost rank and has not "
            "made its Job yet. The other ranks train and cannot answer. Compute the value from "
            "what each rank has, such as arguments, the seed or LOCKSTEP_JOB_UID, or call this "
            "function on all ranks after the Job is made", Status.NOT_MET)
    if name in _BY_NAME:
        with torch.no_grad():
            _BY_NAME[name](group, *arguments)


def _all_gather(group: GroupFacade, outputs: Any, inputs: Any, *_: Any) -> None:
    for blocks, own in zip(outputs, inputs):
        for block in blocks:
            block.copy_(own)


def _gather_coalesced(group: GroupFacade, outputs: Any, inputs: Any, *_: Any) -> None:
    for blocks in outputs:
        for block, own in zip(blocks, inputs):
            block.copy_(own)


def _gather_single(group: GroupFacade, output: Any, own: Any, *_: Any) -> None:
    output.view(group.group_size, -1).copy_(own.reshape(1, -1))


def _gather_singles(group: GroupFacade, outputs: Any, inputs: Any, *_: Any) -> None:
    for output, own in zip(outputs, inputs):
        _gather_single(group, output, own)


def _reduce_scatter(group: GroupFacade, outputs: Any, inputs: Any, *_: Any) -> None:
    for output, blocks in zip(outputs, inputs):
        output.copy_(blocks[group.group_rank])


def _scatter_single(group: GroupFacade, output: Any, own: Any, *_: Any) -> None:
    output.view(-1).copy_(own.reshape(group.group_size, -1)[group.group_rank])


def _scatter_singles(group: GroupFacade, outputs: Any, inputs: Any, *_: Any) -> None:
    for output, own in zip(outputs, inputs):
        _scatter_single(group, output, own)


_BY_NAME = {
    "allgather": _all_gather,
    "allgather_coalesced": _gather_coalesced,
    "all_gather_single": _gather_single,
    "all_gather_single_coalesced": _gather_singles,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_single": _scatter_single,
    "reduce_scatter_single_coalesced": _scatter_singles,
}
