"""Horovod's names for torch on the collectives of this package: a program written for Horovod 0.28
that says `import lockstep.horovod.torch as hvd` runs without Horovod.

All ranks make the same calls in the same order; a call that is another one elsewhere is an error on
all ranks. What Horovod has and this has not is refused by name. docs/own-programs.md tells more.
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

# What Horovod calls its own builds by: none of them is here.
_BUILDS = (
    "ccl_built", "cuda_built", "ddl_built", "gloo_built", "gloo_enabled", "mpi_built",
    "mpi_enabled", "mpi_threads_supported", "nccl_built", "rocm_built")
_REFUSED = (
    "ProcessSet", "SyncBatchNorm", "add_process_set", "check_extension",
    "check_installed_version", "check_num_rank_power_of_2", "gpu_available", "grouped_allgather",
    "grouped_allgather_async", "grouped_reducescatter", "grouped_reducescatter_async",
    "is_homogeneous", "num_rank_is_power_2", "reducescatter_async", "remove_process_set",
    "sparse_allreduce_async", "start_timeline", "stop_timeline")


def __getattr__(name: str) -> Any:
    if name in _BUILDS:
        return lambda *_: False
    if name in _REFUSED:
        raise AttributeError(
            f"{name} is Horovod's, and not offered by lockstep.horovod.torch: see "
            "docs/own-programs.md")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
