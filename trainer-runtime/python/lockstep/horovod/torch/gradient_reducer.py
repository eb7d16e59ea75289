"""Gradients on their way, while the backward pass goes on."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple, Optional, Sequence

import torch

from lockstep.errors import InvalidArgument
from lockstep.horovod.arguments import ReduceOp
from lockstep.horovod.header import Call, Kind
from lockstep.horovod.torch.arguments import word
from lockstep.horovod.torch.compression import Compressor
from lockstep.horovod.torch.world import world
from lockstep.horovod.world import Begun
from lockstep.torch.gradients import Bucket, fuse
from lockstep.torch.session import data_type_of


class Reduction(NamedTuple):
    """How gradients are reduced: `passes` backward passes are added up first, and each sum divided
    by `predivide` before it travels, and multiplied by it after."""

    op: ReduceOp
    compression: type[Compressor]
    passes: int
    predivide: float
    sparse_as_dense: bool


class GradientReducer:
    """Reduces the gradients of `parameters` over all ranks, in buckets, in one order on all ranks
    whatever order the backward pass takes: each is begun when its gradients and all those before it
    are there. A parameter that no rank has used keeps what it has. Thread: one."""

    def __init__(
        self, parameters: Sequence[tuple[str, torch.nn.Parameter]], reduction: Reduction
    ) -> None:
        """`parameters` with their names, in the order in which their buckets are to travel."""
        self._names = [name for name, _ in parameters]
        self._parameters = [parameter for _, parameter in parameters]
        self.reduction = reduction
        self._buckets = fuse([self._small(one) for one in self._parameters], has_marks=True)
        self._calls = [self._call(index) for index in range(len(self._buckets))]
        self._passes = [0] * len(parameters)
        self._begun: list[Begun] = []
        self._moment: Any = None  # whose meeting `_begun` belongs to

    @property
    def is_under_way(self) -> bool:
        """Whether gradients have come, some of which may travel, that nobody has waited for."""
        return any(self._passes) and self._moment == self._now()

    def count_pass(self, place: int) -> None:
        """The gradient of that parameter has come. Errors: InvalidArgument (once too often)."""
        if self._moment != self._now():
            self.forget()  # of ranks that have met anew since
            self._moment = self._now()
        if self._passes[place] >= self.reduction.passes:
            raise InvalidArgument(
                f'the gradient of "{self._names[place]}" was computed more than '
                f"backward_passes_per_step={self.reduction.passes} times before step(): to add up "
                "gradients of several passes, raise backward_passes_per_step")
        self._passes[place] += 1
        while len(self._begun) < len(self._buckets) and self._is_ready(len(self._begun)):
            self._begin_next()

    def synchronize(self) -> None:
        """Returns once all gradients are the reduced ones. They change only after all have come.
        Errors: those of `World`."""
        if self._moment != self._now():
            self.forget()
            self._moment = self._now()
        while len(self._begun) < len(self._buckets):
            self._begin_next()
        for one in self._begun:
            world().wait(one)
        for bucket in self._buckets:
            self._store(bucket)
        self.forget()

    def forget(self) -> None:
        """As after a step."""
        self._begun = []
        self._passes = [0] * len(self._passes)

    def _now(self) -> Any:
        return world(), world().epoch

    def _small(self, parameter: torch.nn.Parameter) -> torch.Tensor:
        """What its gradient travels as; without memory."""
        dtype = parameter.dtype
        if self.reduction.compression.dtype is not None and parameter.is_floating_point():
            dtype = self.reduction.compression.dtype
        return torch.empty(parameter.shape, dtype=dtype, device="meta")

    def _call(self, index: int) -> Call:
        bucket = self._buckets[index]
        places = [place for place, _ in bucket.parts]
        plan = "".join(
            f"{self._names[place]} {list(self._parameters[place].shape)}\n" for place in places)
        numbers = f"{self.reduction.predivide} {zlib.crc32(plan.encode()):08x}"
        count = bucket.flat.numel()
        return Call(
            Kind.ALLREDUCE, f"gradients {index + 1} of {len(self._buckets)}",
            f"{word(bucket.flat.dtype)} [{count}] of {len(places)} parameters from "
            f'"{self._names[places[0]]}" on, {self.reduction.op}, plan {numbers}',
            self.reduction.op.own, data_type_of(bucket.flat.dtype, "gradients"), elements=count)

    def _is_ready(self, index: int) -> bool:
        return all(self._passes[place] == self.reduction.passes
                   for place, _ in self._buckets[index].parts)

    def _begin_next(self) -> None:
        index = len(self._begun)
        bucket = self._buckets[index]
        for number, (place, view) in enumerate(bucket.parts):
            gradient = self._gradient(place)
            bucket.marks[number] = 0.0 if gradient is None else 1.0
            if gradient is None:
                view.zero_()
            else:
                view.copy_(gradient)
        if self.reduction.predivide != 1.0:
            bucket.flat.div_(self.reduction.predivide)
        self._begun.append(world().begin_all_reduce(self._calls[index], bucket.flat))

    def _gradient(self, place: int) -> Optional[torch.Tensor]:
        gradient = self._parameters[place].grad
        if gradient is None or gradient.layout == torch.strided:
            return gradient
        if not self.reduction.sparse_as_dense:
            raise InvalidArgument(
                f'the gradient of "{self._names[place]}" is {gradient.layout}, expected a dense '
                "gradient; sparse_as_dense=True makes sparse gradients dense")
        return gradient.to_dense()

    def _store(self, bucket: Bucket) -> None:
        if self.reduction.predivide != 1.0:
            bucket.flat.mul_(self.reduction.predivide)
        used = bucket.marks.tolist()
        with torch.no_grad():
            for mark, (place, view) in zip(used, bucket.parts):
                parameter = self._parameters[place]
                if mark == 0:
                    continue
                if parameter.grad is None or parameter.grad.layout != torch.strided:
                    parameter.grad = torch.empty_like(parameter)
                parameter.grad.copy_(view)
