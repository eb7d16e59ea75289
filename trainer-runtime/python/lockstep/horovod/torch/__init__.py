"""Horovod's API for torch on the collectives of this package. A program written for Horovod 0.28
runs without Horovod if it says `import lockstep.horovod.torch as hvd`.

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
from lockstep.horovod.torch import elastic
from lockstep.horovod.torch.arguments import poll, synchronize
from lockstep.horovod.torch.compression import Compression
from lockstep.horovod.torch.exchanges import (
    allgather,
    allgather_async,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    join,
)
from lockstep.horovod.torch.functions import broadcast_optimizer_state, broadcast_parameters
from lockstep.horovod.torch.optimizer import DistributedOptimizer
from lockstep.horovod.torch.reductions import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    reducescatter,
)
from lockstep.horovod.torch.world import init

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "cross_rank",
    "cross_size",
    "elastic",
    "global_process_set",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "init",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "poll",
    "rank",
    "reducescatter",
    "shutdown",
    "size",
    "synchronize",
]

_REFUSED = (
    "SyncBatchNorm", "grouped_allgather_async", "grouped_reducescatter_async",
    "reducescatter_async", "sparse_allreduce_async")


def __getattr__(name: str) -> Any:
    return missing(__name__, name, _REFUSED)
