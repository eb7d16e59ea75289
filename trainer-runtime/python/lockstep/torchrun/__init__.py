"""The rendezvous `lockstep` of torchrun: `torchrun --rdzv-backend=lockstep train.py`, or
PET_RDZV_BACKEND=lockstep. When a pod of the job is lost, the torchrun processes of the other pods
keep running. They start their workers again when the pod's replacement has joined. This does not
count as a restart of torchrun.

torch 2.6 and newer find this backend through the package's entry point. Then every torchrun loads
this module, even with another backend, so this module does not load torch.
"""

from __future__ import annotations

from typing import Any, Callable

__all__ = ["handler_creator", "register"]

_BACKEND = "lockstep"


def handler_creator() -> Callable[[Any], Any]:
    """The entry point: returns the function with which torch makes a rendezvous handler."""
    return _create


def register() -> None:
    """Registers the backend with torch before 2.6, which reads no entry points. Call it before
    torch.distributed.run.main()."""
    from torch.distributed.elastic.rendezvous import rendezvous_handler_registry

    rendezvous_handler_registry.register(_BACKEND, _create)


def _create(parameters: Any) -> Any:
    from lockstep.torchrun.agent import create_handler

    return create_handler(parameters)
