"""For PyTorch Lightning's Trainer: progress in the job's status, and recovery (`Recovers`)."""

from __future__ import annotations

from typing import Any

from lockstep.lightning.progress import callback, callback_of_pytorch_lightning

__all__ = ["Recovers", "callback", "callback_of_pytorch_lightning"]


def __getattr__(name: str) -> Any:
    """Lightning imports this package for the callback, even where nothing is to recover."""
    if name != "Recovers":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lockstep.lightning.strategy import Recovers

    return Recovers
