"""Shows the progress of PyTorch Lightning's Trainer in the job's status. If this package is
installed, Lightning loads the callback by itself (entry points in pyproject.toml)."""

from __future__ import annotations

import contextlib
import importlib
import math
import time
from collections.abc import Mapping
from typing import Any, Optional

from lockstep.errors import LockstepError
from lockstep.library import Phase
from lockstep.reporting import Reporter
from lockstep.session import Progress

# Choice: to read the loss waits for the device.
_SECONDS_BETWEEN = 1.0


def callback() -> Any:
    """Returns a callback for Lightning's Trainer that reports progress."""
    return _callback_of("lightning.pytorch")


def callback_of_pytorch_lightning() -> Any:
    """Like `callback`, for the package pytorch_lightning."""
    return _callback_of("pytorch_lightning")


def _callback_of(package: str) -> Any:
    """Its Trainer compares the types of its callbacks with its own."""
    base: Any = importlib.import_module(package).Callback
    return type("LockstepProgress", (_Report, base), {})()


class _Report:
    """Every rank reports. It does nothing outside of a job, or if the process already has a session
    of Lockstep."""

    def __init__(self) -> None:
        self._reporter: Optional[Reporter] = None
        self._total: Optional[int] = None
        self._reported_at = -math.inf

    def on_train_start(self, trainer: Any, module: Any) -> None:
        """Opens the session for reports."""
        with contextlib.suppress(LockstepError):
            self._reporter = Reporter()
        total = trainer.estimated_stepping_batches
        self._total = None if math.isinf(total) or total < 0 else int(total)

    def on_train_batch_end(
        self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Reports at most once a second, and at the last step."""
        if self._reporter is None:
            return
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        is_due = time.monotonic() >= self._reported_at + _SECONDS_BETWEEN
        if not is_due and trainer.global_step != self._total:
            return
        self._reported_at = time.monotonic()
        self._reporter.report(Progress(
            step=trainer.global_step, steps_total=self._total, data_epoch=trainer.current_epoch,
            loss=None if loss is None else float(loss), phase=Phase.TRAINING))

    def on_train_end(self, trainer: Any, module: Any) -> None:
        """Closes the session for reports. Another `fit` opens a new one."""
        if self._reporter is not None:
            self._reporter.close()
            self._reporter = None
