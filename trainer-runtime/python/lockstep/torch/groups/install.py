"""Makes torch's groups facades: programs keep their backend's name."""

from __future__ import annotations

import importlib
import os
from typing import Any, Callable

import torch
import torch.distributed as dist

from lockstep.errors import InvalidArgument

_TORCH = "2.15"

# Settings under which torch's groups are none that can be formed anew.
_REFUSED_SETTINGS = {
    ("TORCH_DIST_USE_NCCL2", "0"): "the older NCCL backend ends the process when a rank is lost",
    ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"): "torch then wraps each group in a group of "
                                           "gloo, which cannot be re-created",
}

# Backends that are left as they are and cannot be formed anew, and why.
_REFUSED_BACKENDS = {
    "nccl-legacy": "it ends the process when a rank is lost; use nccl",
    "nccl-lazy": "it cannot be re-created after the loss of a rank; use nccl",
    "nccl2": "use nccl, which is the same backend",
    "xccl": "re-creating it after the loss of a rank is untested; use gloo",
    "ucc": "it cannot be re-created after the loss of a rank; use nccl or gloo",
    "mpi": "MPI ends all ranks when one is lost; use nccl or gloo",
}


def check_torch() -> None:
    """Whether this torch has a backend that Python can make. Errors: InvalidArgument."""
    backend = getattr(torch._C._distributed_c10d, "Backend", None)
    try:
        backend(0, 1)  # type: ignore[misc]
    except (TypeError, AttributeError):
        raise InvalidArgument(
            "groups: recovery that keeps torch's own groups needs torch "
            f"{_TORCH}; found {torch.__version__}: use the backend lockstep "
            "(lockstep.torch.distributed) or lockstep.torch.Job without groups, or let the gang "
            "restart from its checkpoint") from None


def check_settings() -> None:
    """Errors: InvalidArgument (names the variable)."""
    for (name, value), why in _REFUSED_SETTINGS.items():
        if os.environ.get(name, "").upper() == value:
            raise InvalidArgument(f"{name}: {value} found; unset this variable, because {why}")


def install() -> None:
    """Before `init_process_group`. Again does nothing. Errors: InvalidArgument (torch is too old,
    a setting is refused, or groups were made before)."""
    global _is_installed
    if _is_installed:
        return
    check_torch()
    check_settings()
    if dist.is_initialized():
        raise InvalidArgument(
            "groups: torch.distributed is initialized already, and its groups cannot be "
            "re-created; import lockstep.torch.groups before init_process_group")
    from lockstep.torch.groups.facade import CoalescingFacade, GroupFacade
    from lockstep.torch.groups.inner import GlooInner, NcclInner

    types = dist.ProcessGroup.BackendType
    # DistributedDataParallel takes whatever is of gloo's type for gloo's own class.
    _wrap("gloo", types.CUSTOM, GroupFacade, GlooInner)
    if dist.is_nccl_available():
        _wrap("nccl", types.NCCL, CoalescingFacade, NcclInner)
    for name, why in _REFUSED_BACKENDS.items():
        _refuse(name, why)
    handlers = importlib.import_module("torch.distributed.rendezvous")._rendezvous_handlers
    handlers.update({"env": _rendezvous, "tcp": _rendezvous})
    _is_installed = True


def _register(name: str, make: Callable[[Any, Any], Any], kind: Any) -> None:
    devices = dist.Backend.backend_capability.get(name, ["cuda"])
    dist.Backend.register_backend(
        name, make, extended_api=True, devices=devices, _backend_type=kind)


def _wrap(name: str, kind: Any, facade: type, inner: type) -> None:
    from lockstep.torch.groups.control import control

    dist.Backend._ensure_backend_registered(name)
    make = dist.Backend._plugins[name.upper()].creator_fn

    def make_facade(options: Any, own_options: Any) -> Any:
        options.process_group = None  # which holds the facade
        options.split_from = None
        made = facade(control(), name, inner, make, options, own_options)
        control().add(made)
        return made

    _register(name, make_facade, kind)


def _refuse(name: str, why: str) -> None:
    def make(options: Any, own_options: Any) -> Any:
        raise InvalidArgument(
            f"backend: {name} found, but lockstep.torch.groups needs nccl or gloo: {why}")

    kind = dist.Backend.backend_type_map.get(name, dist.ProcessGroup.BackendType.CUSTOM)
    _register(name, make, kind)


def _rendezvous(url: str, timeout: Any = None, **named: Any) -> Any:
    """torch's own would have rank 0's process keep what all ranks share, and wait for all of them
    whenever it is replaced. Ours is the session's."""
    from lockstep.torch.groups.control import control

    try:
        place = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        raise InvalidArgument(
            "init_process_group: RANK and WORLD_SIZE are not the numbers that lockstep run or the "
            "operator sets; do not change or remove these variables") from None
    yield (control().default_store, *place)
    raise RuntimeError("init_process_group: each process can join only one rendezvous")


_is_installed = False
