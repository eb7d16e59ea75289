"""The rendezvous `lockstep` of torchrun: `torchrun --rdzv-backend=lockstep train.py`, or
PET_RDZV_BACKEND=lockstep. When a pod of the job is lost, the torchrun processes of the other pods
keep running. They start their workers again as soon as the pod's replacement has come, and count no
restart.

torch 2.6 and newer find the backend by the package's entry point. Every torchrun loads this module
then, whatever backend it uses, so it loads no torch.
"""

from __future__ import annotations

from typing import Any, Callable

__all__ = ["handler_creator", "register"]

_BACKEND = "lockstep"


def handler_creator() -> Callable[[Any], Any]:
    """What torch calls to have a rendezvous handler made: the entry point."""
    return _create


def register() -> None:
    """Makes the backend known to a torch that reads no entry points, one before 2.6. Call it before
    torch.distributed.run.main()."""
    from torch.distributed.elastic.rendezvous import rendezvous_handler_registry

    rendezvous_handler_registry.register(_BACKEND, _create)


def _create(parameters: Any) -> Any:
    from lockstep.torchrun.agent import create_handler

    return create_handler(parameters)
