"""Horovod's reductions. All ranks make the same calls in the same order with the same names.
Tensors on GPUs travel through the host's memory. Errors: InvalidArgument (only this call fails, on
this rank), and those of `World`."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional, Sequence

import torch

from lockstep.errors import InvalidArgument
from lockstep.horovod.arguments import (
    Average,
    ProcessSet,
    Product,
    ReduceOp,
    Reduction,
    Sum,
    check_process_set,
    op_of,
    own_share,
)
from lockstep.horovod.header import Call, Kind
from lockstep.horovod.torch.arguments import (
    Handle,
    check_detached,
    check_rows,
    check_tensor,
    staged,
    word,
)
from lockstep.horovod.torch.compression import Compression, Compressor
from lockstep.horovod.torch.world import world
from lockstep.horovod.world import Begun
from lockstep.torch.session import data_type_of
from lockstep.torch.state import bytes_of


class _Begun(NamedTuple):
    """A reduction of several tensors on its way; `finish` makes them once it has ended."""

    calls: list[Begun]
    finish: Callable[[], list[torch.Tensor]]


def _begin(
    tensors: Sequence[torch.Tensor], reduction: Reduction, name: str, is_in_place: bool
) -> _Begun:
    """In one call. Precondition: `tensors`, some, are of one type."""
    for tensor in tensors:
        check_tensor(tensor, name)
        reduction.check(str(tensor.dtype), tensor.is_floating_point(), name)
    dtype = tensors[0].dtype
    shapes = [list(tensor.shape) for tensor in tensors]
    what = f"{word(dtype)} {shapes[0] if len(shapes) == 1 else shapes}, {reduction}"
    flat = _flat(tensors)
    if reduction.prescale != 1.0:
        flat.mul_(reduction.prescale)
    call = Call(Kind.ALLREDUCE, name, what, reduction.op.own, data_type_of(dtype, name),
                elements=flat.numel())
    calls = []
    if reduction.op is Product:
        flat = _product(call, flat)
    else:
        calls.append(world().begin_all_reduce(call, flat))

    def finish() -> list[torch.Tensor]:
        if reduction.postscale != 1.0:
            flat.mul_(reduction.postscale)
        made = _parts(flat, tensors)
        if not is_in_place:
            return [part.to(tensor.device) for part, tensor in zip(made, tensors)]
        with torch.no_grad():
            for part, tensor in zip(made, tensors):
                tensor.copy_(part)
        return list(tensors)

    return _Begun(calls, finish)


def _flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """A copy of them side by side; of one, a tensor of its shape, which is nobody's view."""
    if len(tensors) == 1:
        return tensors[0].detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
    return torch.cat([staged(tensor).reshape(-1) for tensor in tensors])


def _parts(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What was put side by side."""
    if len(tensors) == 1:
        return [flat]
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    return [part.reshape(tensor.shape) for part, tensor in zip(parts, tensors)]


def _product(call: Call, flat: torch.Tensor) -> torch.Tensor:
    """In the order of ranks."""
    call = call._replace(length=flat.numel() * flat.element_size())
    product = torch.ones_like(flat)
    for one in world().gather(call, bytes_of(flat)):
        product.mul_(one.clone().view(flat.dtype).reshape(flat.shape))
    return product


class _AllReduce(torch.autograd.Function):
    """Gradients go back by the same reduction."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, reduction: Reduction, name: str) -> torch.Tensor:
        ctx.reduction, ctx.name = reduction, name
        begun = _begin([tensor], reduction, name, is_in_place=False)
        result: torch.Tensor = Handle(begun.calls, lambda: begun.finish()[0]).wait()
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        name = ctx.name + ".gradient"
        return _all_reduce(gradients[0], ctx.reduction, name), None, None


_apply: Any = _AllReduce.apply  # has no types


def _all_reduce(tensor: torch.Tensor, reduction: Reduction, name: str) -> torch.Tensor:
    result: torch.Tensor = _apply(tensor, reduction, name)
    return result


def allreduce(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: type[Compressor] = Compression.none,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> torch.Tensor:
    """Reduces `tensor` over all ranks into a new tensor. Average and Sum are differentiable."""
    check_process_set(process_set)
    reduction = Reduction(op_of(op, average), prescale_factor, postscale_factor)
    name = world().name("allreduce", name)
    check_tensor(tensor, name)
    if reduction.op not in (Average, Sum):
        check_detached(tensor, name)
    small, context = compression.compress(tensor)
    return compression.decompress(_all_reduce(small, reduction, name), context)


def allreduce_async(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> Handle:
    """Like `allreduce`, but in the background and not differentiable."""
    check_process_set(process_set)
    reduction = Reduction(op_of(op, average), prescale_factor, postscale_factor)
    name = world().name("allreduce", name)
    begun = _begin([tensor], reduction, name, is_in_place=False)
    return Handle(begun.calls, lambda: begun.finish()[0])


def allreduce_(tensor: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
    """Reduces `tensor` in place, and returns it. Arguments: see `allreduce_async`."""
    result: torch.Tensor = allreduce_async_(tensor, *arguments, **named).wait()
    return result


def allreduce_async_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> Handle:
    """Reduces `tensor` in place, in the background; `synchronize` writes the result."""
    check_process_set(process_set)
    reduction = Reduction(op_of(op, average), prescale_factor, postscale_factor)
    name = world().name("allreduce", name)
    begun = _begin([tensor], reduction, name, is_in_place=True)
    return Handle(begun.calls, lambda: begun.finish()[0])


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: type[Compressor] = Compression.none,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> list[torch.Tensor]:
    """Reduces `tensors` into new tensors; those of one type in one call."""
    for tensor in tensors:
        check_detached(tensor, name or "grouped_allreduce")
    small = [compression.compress(tensor) for tensor in tensors]
    reduced = grouped_allreduce_async(
        [one for one, _ in small], average, name, op, prescale_factor, postscale_factor,
        process_set).wait()
    return [compression.decompress(one, context) for one, (_, context) in zip(reduced, small)]


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> Handle:
    """Like `grouped_allreduce`, but in the background."""
    reduction = Reduction(op_of(op, average), prescale_factor, postscale_factor)
    return _begin_group(tensors, reduction, name, process_set, is_in_place=False)


def grouped_allreduce_(tensors: Sequence[torch.Tensor], *arguments: Any, **named: Any) -> Any:
    """Reduces `tensors` in place. Arguments: see `grouped_allreduce_async`."""
    return grouped_allreduce_async_(tensors, *arguments, **named).wait()


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> Handle:
    """Reduces `tensors` in place, in the background; `synchronize` writes the results."""
    reduction = Reduction(op_of(op, average), prescale_factor, postscale_factor)
    return _begin_group(tensors, reduction, name, process_set, is_in_place=True)


def _begin_group(
    tensors: Sequence[torch.Tensor],
    reduction: Reduction,
    name: Optional[str],
    process_set: Optional[ProcessSet],
    is_in_place: bool,
) -> Handle:
    check_process_set(process_set)
    name = world().name("grouped_allreduce", name)
    groups: dict[torch.dtype, list[int]] = {}
    for place, tensor in enumerate(tensors):
        check_tensor(tensor, name)
        groups.setdefault(tensor.dtype, []).append(place)
    begun = [_begin([tensors[place] for place in places], reduction, name, is_in_place)
             for places in groups.values()]

    def finish() -> list[torch.Tensor]:
        made: dict[int, torch.Tensor] = {}
        for places, one in zip(groups.values(), begun):
            made.update(zip(places, one.finish()))
        return [made[place] for place in range(len(tensors))]

    return Handle([call for one in begun for call in one.calls], finish)


def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    compression: type[Compressor] = Compression.none,
    op: Optional[ReduceOp] = None,
    process_set: Optional[ProcessSet] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Reduces `tensor` [rows, ...] by Average or Sum, and returns this rank's rows. All ranks get
    the same number of rows; if some are left over, the first ranks get one more."""
    name = world().name("reducescatter", name)
    check_rows(tensor, name)
    check_detached(tensor, name)
    if op_of(op) not in (Average, Sum):
        raise InvalidArgument(f"{name}: op {op!r} found, expected Average or Sum")
    whole = allreduce(tensor, None, name, compression, op, prescale_factor, postscale_factor,
                      process_set)
    return whole[own_share(tensor.shape[0])].clone()
