"""Horovod's API for TensorFlow 2 on the collectives of this package. A program written for
Horovod 0.28 runs without Horovod if it says `import lockstep.horovod.tensorflow as hvd`. It works
eagerly and within `tf.function`, with Keras 3 and with tf-keras.

All ranks have to make the same calls in the same order; otherwise the call fails on all ranks.
Names of Horovod that are missing here raise an error with the name. See
docs/reference/horovod.md.
"""

from typing import Any

from lockstep.horovod.arguments import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    global_process_set,
)
from lockstep.horovod.host import init
from lockstep.horovod.objects import allgather_object, broadcast_object
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
from lockstep.horovod.refusals import missing
from lockstep.horovod.tensorflow import elastic
from lockstep.horovod.tensorflow.compression import Compression
from lockstep.horovod.tensorflow.exchanges import (
    allgather,
    alltoall,
    barrier,
    broadcast,
    join,
    local_rank_op,
    local_size_op,
    rank_op,
    size_op,
)
from lockstep.horovod.tensorflow.functions import (
    broadcast_global_variables,
    broadcast_variables,
)
from lockstep.horovod.tensorflow.gradients import DistributedGradientTape
from lockstep.horovod.tensorflow.optimizer import DistributedOptimizer
from lockstep.horovod.tensorflow.reductions import allreduce, grouped_allreduce, reducescatter

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "cross_rank",
    "cross_size",
    "elastic",
    "global_process_set",
    "grouped_allreduce",
    "init",
    "is_initialized",
    "join",
    "local_rank",
    "local_rank_op",
    "local_size",
    "local_size_op",
    "rank",
    "rank_op",
    "reducescatter",
    "shutdown",
    "size",
    "size_op",
]

_REFUSED = (
    "BroadcastGlobalVariablesHook", "LocalGradientAggregationHelper",
    "PartialDistributedGradientTape", "PartialDistributedOptimizer", "SyncBatchNormalization",
    "broadcast_", "broadcast_object_fn", "handle_average_backwards_compatibility",
    "process_set_included_op")


def __getattr__(name: str) -> Any:
    return missing(__name__, name, _REFUSED)
