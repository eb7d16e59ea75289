"""Names that Horovod has and lockstep.horovod has not."""

from __future__ import annotations

from typing import Any, NoReturn

from lockstep.errors import InvalidArgument

# What Horovod calls its own builds by: none of them is here.
_BUILDS = (
    "ccl_built", "cuda_built", "ddl_built", "gloo_built", "gloo_enabled", "mpi_built",
    "mpi_enabled", "mpi_threads_supported", "nccl_built", "rocm_built")
_REFUSED = (
    "ProcessSet", "add_process_set", "check_extension", "check_installed_version",
    "check_num_rank_power_of_2", "gpu_available", "grouped_allgather", "grouped_reducescatter",
    "is_homogeneous", "num_rank_is_power_2", "remove_process_set", "start_timeline",
    "stop_timeline")


def missing(module: str, name: str, refused: tuple[str, ...]) -> Any:
    """What attribute `name` of `module` is, which has none of that name. Errors: AttributeError."""
    if name in _BUILDS:
        return lambda *_: False
    if name in _REFUSED or name in refused:
        raise AttributeError(
            f"{name} of Horovod is not available in {module}: see docs/reference/horovod.md")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def no_global_variables(instead: str) -> NoReturn:
    """What `broadcast_global_variables` comes to, as with Horovod in TensorFlow 2. `instead`: what
    a program does in its place. Errors: InvalidArgument."""
    raise InvalidArgument(
        f"broadcast_global_variables: TensorFlow 2 has no global variables: {instead}")
