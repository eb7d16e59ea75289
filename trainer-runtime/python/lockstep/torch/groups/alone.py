"""What a replacement's set-up is answered, which runs before it meets anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import torch
import torch.distributed

from lockstep.errors import InvalidArgument, LockstepError, Status

if TYPE_CHECKING:
    from lockstep.torch.groups.facade import GroupFacade

# Calls that leave what this rank holds as it is: all others are taken to hold the same.
_AS_IT_IS = ("broadcast", "barrier")

_Op: Any = torch.distributed.ReduceOp

# Reductions of equal values that are this value again.
_IDEMPOTENT = (_Op.AVG, _Op.MIN, _Op.MAX, _Op.BAND, _Op.BOR)


def answer_alone(
    group: GroupFacade, name: str, object_call: Optional[str], arguments: tuple[Any, ...]
) -> None:
    """As if all ranks of `group` held what this one holds, which is enough for constructors that
    compare shapes and give weights to each other: the state comes with the meeting. `object_call`:
    the function for objects that the call is made by, if any.

    Errors: LockstepError (a call whose answer only the other ranks have), InvalidArgument (an
    operator that no answer is known for).
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


def _reduce_all(group: GroupFacade, tensors: Any, options: Any, *_: Any) -> None:
    for tensor in tensors:
        _reduce(group, tensor, options)


def _reduce_to_root(group: GroupFacade, tensors: Any, options: Any, *_: Any) -> None:
    if options.rootRank == group.group_rank:  # what others are left with is not told
        _reduce_all(group, tensors, options)


def _reduce_scatter(group: GroupFacade, outputs: Any, inputs: Any, options: Any, *_: Any) -> None:
    for output, blocks in zip(outputs, inputs):
        output.copy_(blocks[group.group_rank])
    _reduce_all(group, outputs, options)


def _scatter_single(group: GroupFacade, output: Any, own: Any, options: Any, *_: Any) -> None:
    output.view(-1).copy_(own.reshape(group.group_size, -1)[group.group_rank])
    _reduce(group, output, options)


def _scatter_singles(group: GroupFacade, outputs: Any, inputs: Any, options: Any, *_: Any) -> None:
    for output, own in zip(outputs, inputs):
        _scatter_single(group, output, own, options)


def _reduce(group: GroupFacade, tensor: Any, options: Any) -> None:
    """In place, of as many equal values as there are ranks. Errors: InvalidArgument."""
    reduction = options.reduceOp
    op = reduction.op
    if op in _IDEMPOTENT or (op == _Op.SUM and tensor.dtype == torch.bool):
        return
    if op == _Op.SUM:
        tensor.mul_(group.group_size)
    elif op == _Op.PREMUL_SUM:
        tensor.mul_(reduction.factor).mul_(group.group_size)
    else:
        raise InvalidArgument(
            f"{op.name}: a process that replaces a lost rank has called a reduction by this "
            "operator before it made its Job, expected SUM, AVG, PREMUL_SUM, MIN, MAX, BAND or BOR")


_BY_NAME = {
    "allreduce": _reduce_all,
    "allreduce_coalesced": _reduce_all,
    "reduce": _reduce_to_root,
    "allgather": _all_gather,
    "allgather_coalesced": _gather_coalesced,
    "all_gather_single": _gather_single,
    "all_gather_single_coalesced": _gather_singles,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_single": _scatter_single,
    "reduce_scatter_single_coalesced": _scatter_singles,
}
