"""A gradient tape that returns the gradients of all ranks."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence

import numpy as np

from lockstep.errors import InvalidArgument
from lockstep.horovod import host
from lockstep.horovod.arguments import (
    Average,
    ProcessSet,
    ReduceOp,
    Reduction,
    check_gradients,
    check_process_set,
    op_of,
)
from lockstep.horovod.callbacks import check_device
from lockstep.horovod.tensorflow.compression import Compression, Compressor
from lockstep.horovod.tensorflow.graph import as_is, on_host, tf
from lockstep.horovod.tensorflow.reductions import reduce_mixed


class GradientReducer(NamedTuple):
    """Reduces gradients over all ranks: dense ones of one type in one call, which have the same
    order on all ranks, as a program's variables have."""

    name: str
    reduction: Reduction
    compression: type[Compressor]
    sparse_as_dense: bool

    def dense(self, gradient: Any) -> Any:
        """`gradient`, dense where that is asked for."""
        if self.sparse_as_dense and isinstance(gradient, tf.IndexedSlices):
            return tf.convert_to_tensor(gradient)
        return gradient

    def reduce(self, gradients: Sequence[Any]) -> list[Any]:
        """New ones, and a step is reported. None, of variables that have none, stays None."""
        reduced = reduce_mixed(
            [self.dense(one) for one in gradients], self.reduction, self.compression, self.name,
            self.name)
        on_host(_report_step, [], [tf.int32])
        return reduced


def _report_step() -> list[host.Array]:
    host.world().report_step()
    return [np.zeros((), np.int32)]


def reducer_of(
    name: str,
    device_dense: str,
    device_sparse: str,
    compression: type[Compressor],
    sparse_as_dense: bool,
    op: ReduceOp,
    gradient_predivide_factor: float,
    num_groups: int,
    groups: Any,
    process_set: Optional[ProcessSet],
    scale_local_gradients: bool,
) -> GradientReducer:
    """Of Horovod's arguments. Errors: InvalidArgument."""
    host.world()
    check_process_set(process_set)
    check_device("device_dense", device_dense)
    check_device("device_sparse", device_sparse)
    check_gradients(op, compression, (Compression.none, Compression.fp16),
                    gradient_predivide_factor, num_groups, groups)
    if scale_local_gradients is not True:
        raise InvalidArgument(
            f"scale_local_gradients: {scale_local_gradients!r} found, expected True: variables of "
            "only one rank are not supported")
    reduction = Reduction(op_of(op), 1 / gradient_predivide_factor, gradient_predivide_factor)
    return GradientReducer(name, reduction, compression, sparse_as_dense)


class _DistributedTape:
    """A tape whose `gradient` gives the gradients of all ranks; all else is the tape's."""

    def __init__(self, tape: Any, reducer: GradientReducer) -> None:
        self._tape = tape
        self._reducer = reducer

    def __enter__(self) -> _DistributedTape:
        self._tape.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._tape.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    @as_is
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: bool = False,
        **named: Any,
    ) -> Any:
        """Like `gradient` of tf.GradientTape, with the gradients reduced. `use_generic_names` has
        no effect."""
        found = self._tape.gradient(target, sources, output_gradients, **named)
        return tf.nest.pack_sequence_as(found, self._reducer.reduce(tf.nest.flatten(found)))


def DistributedGradientTape(
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: Optional[ProcessSet] = None,
    scale_local_gradients: bool = True,
) -> Any:
    """Returns a tape for `gradtape`, a tf.GradientTape, whose `gradient` returns the gradients of
    all ranks. All ranks must ask for gradients of the same variables in the same order, and the
    same variables must have none.

    tf.IndexedSlices of all ranks are concatenated; with `sparse_as_dense` they are made dense
    first. Errors: InvalidArgument.
    """
    return _DistributedTape(gradtape, reducer_of(
        "gradients", device_dense, device_sparse, compression, sparse_as_dense, op,
        gradient_predivide_factor, num_groups, groups, process_set, scale_local_gradients))
