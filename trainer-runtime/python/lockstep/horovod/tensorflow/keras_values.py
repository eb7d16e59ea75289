"""The names of Horovod's Keras modules, except callbacks and states, for any Keras. Each module
binds `load_model` to its Keras."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional

from lockstep.horovod.arguments import Average, ProcessSet, ReduceOp, Sum, global_process_set
from lockstep.horovod.host import init
from lockstep.horovod.process import (
    cross_rank,
    cross_size,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
)
from lockstep.horovod.refusals import missing, no_global_variables
from lockstep.horovod.tensorflow import exchanges, reductions
from lockstep.horovod.tensorflow.compression import Compression, Compressor
from lockstep.horovod.tensorflow.graph import tf
from lockstep.horovod.tensorflow.optimizer import DistributedOptimizer as _distribute

__all__ = [
    "Average",
    "Compression",
    "DistributedOptimizer",
    "Sum",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "cross_rank",
    "cross_size",
    "global_process_set",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "rank",
    "reducescatter",
    "shutdown",
    "size",
]


def DistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: ReduceOp = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: Optional[ProcessSet] = None,
    scale_local_gradients: bool = True,
) -> Any:
    """As in lockstep.horovod.tensorflow, with the argument order of Horovod's Keras module."""
    return _distribute(
        optimizer, name, False, device_dense, device_sparse, compression, sparse_as_dense,
        backward_passes_per_step, op, gradient_predivide_factor, average_aggregated_gradients,
        num_groups, groups, process_set, scale_local_gradients)


def allreduce(
    value: Any,
    name: Optional[str] = None,
    average: Optional[bool] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: Optional[ReduceOp] = None,
    compression: type[Compressor] = Compression.none,
) -> Any:
    """Converts `value` to a tensor and reduces it over all ranks. Errors: those of `allreduce`."""
    return reductions.allreduce(
        tf.convert_to_tensor(value), average, compression=compression, op=op, name=name,
        prescale_factor=prescale_factor, postscale_factor=postscale_factor)


def allgather(value: Any, name: Optional[str] = None) -> Any:
    """Concatenates the rows of all ranks. Errors: those of `allreduce`."""
    return exchanges.allgather(value, name)


def broadcast(value: Any, root_rank: int, name: Optional[str] = None) -> Any:
    """Returns `value` of rank `root_rank`. Errors: those of `allreduce`."""
    return exchanges.broadcast(value, root_rank, name)


def reducescatter(value: Any, name: Optional[str] = None, op: ReduceOp = Average) -> Any:
    """Reduces `value`, and returns this rank's rows. Errors: those of `allreduce`."""
    return reductions.reducescatter(value, op=op, name=name)


def broadcast_global_variables(root_rank: int) -> None:
    """Raises an error, as Horovod does in TensorFlow 2. Errors: InvalidArgument."""
    no_global_variables(
        "pass callbacks.BroadcastGlobalVariablesCallback(root_rank) to fit, or call "
        "lockstep.horovod.tensorflow.broadcast_variables")


def load_model_by(keras: Any) -> Callable[..., Any]:
    """Horovod's `load_model`, for that Keras."""

    def load_model(
        filepath: Any,
        custom_optimizers: Optional[Iterable[type]] = None,
        custom_objects: Optional[dict[str, Any]] = None,
        compression: type[Compressor] = Compression.none,
    ) -> Any:
        """Loads a model from a file, and makes its optimizer a DistributedOptimizer with the saved
        state. `custom_optimizers`: optimizer classes that Keras does not know. Errors: those of
        Keras."""
        objects = {one.__name__: one for one in custom_optimizers or ()}
        model = keras.models.load_model(
            filepath, custom_objects={**objects, **(custom_objects or {})})
        if getattr(model, "optimizer", None) is not None:
            DistributedOptimizer(model.optimizer, compression=compression)
        return model

    return load_model


def missing_name(module: str, name: str) -> Any:
    """As of `refusals.missing`, for a module of a Keras."""
    return missing(module, name, ("PartialDistributedOptimizer", "broadcast_object"))
