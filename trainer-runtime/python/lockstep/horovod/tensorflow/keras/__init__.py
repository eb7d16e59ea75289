"""Horovod's names for tf.keras on the collectives of this package: where a program for Horovod 0.28
says `import horovod.tensorflow.keras as hvd`, it says
`import lockstep.horovod.tensorflow.keras as hvd`.

What Horovod has and this has not is refused by name. docs/own-programs.md tells more.
"""

import functools
from typing import Any

from lockstep.horovod.arguments import Average, Sum, global_process_set
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
from lockstep.horovod.refusals import missing
from lockstep.horovod.tensorflow.compression import Compression
from lockstep.horovod.tensorflow.functions import broadcast_global_variables
from lockstep.horovod.tensorflow.keras import callbacks, elastic
from lockstep.horovod.tensorflow.keras_values import (
    DistributedOptimizer,
    allgather,
    allreduce,
    broadcast,
    load_model_of,
    reducescatter,
)

load_model = functools.partial(load_model_of, callbacks.keras)

__all__ = [
    "Average",
    "Compression",
    "DistributedOptimizer",
    "Sum",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "callbacks",
    "cross_rank",
    "cross_size",
    "elastic",
    "global_process_set",
    "init",
    "is_initialized",
    "load_model",
    "local_rank",
    "local_size",
    "rank",
    "reducescatter",
    "shutdown",
    "size",
]


def __getattr__(name: str) -> Any:
    return missing(__name__, name, ("PartialDistributedOptimizer", "broadcast_object"))
