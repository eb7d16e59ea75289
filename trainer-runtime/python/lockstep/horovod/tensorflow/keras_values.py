"""What Horovod's modules for Keras have besides callbacks and states, for whichever Keras: each has
all these names, and binds `load_model` to its Keras."""

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
    """That of lockstep.horovod.tensorflow, with its arguments in the order of Horovod's Keras."""
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
    """`value`, which becomes a tensor, reduced over all ranks. Errors: as of the reductions."""
    return reductions.allreduce(
        tf.convert_to_tensor(value), average, compression=compression, op=op, name=name,
        prescale_factor=prescale_factor, postscale_factor=postscale_factor)


def allgather(value: Any, name: Optional[str] = None) -> Any:
    """The rows of all ranks one below the other. Errors: as of the reductions."""
    return exchanges.allgather(value, name)


def broadcast(value: Any, root_rank: int, name: Optional[str] = None) -> Any:
    """That of rank `root_rank`. Errors: as of the reductions."""
    return exchanges.broadcast(value, root_rank, name)


def reducescatter(value: Any, name: Optional[str] = None, op: ReduceOp = Average) -> Any:
    """This rank's rows of the reduced `value`. Errors: as of the reductions."""
    return reductions.reducescatter(value, op=op, name=name)


def broadcast_global_variables(root_rank: int) -> None:
    """As Horovod has it in TensorFlow 2: refused. Errors: InvalidArgument."""
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
        """A model from a file, with its optimizer as a DistributedOptimizer, whose state is what
        was saved. `custom_optimizers`: classes of them that Keras does not know. Errors:
        Keras's."""
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
