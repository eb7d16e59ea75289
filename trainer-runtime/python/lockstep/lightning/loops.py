"""Classes that are put before those of the loops of Lightning's Trainer."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

_Warning: Any = importlib.import_module("lightning.fabric.utilities.warnings").PossibleUserWarning


def put_before(loop: Any, kind: type) -> None:
    """Makes `loop`, which exists, one of `kind` as well."""
    if not isinstance(loop, kind):
        found = type(loop)
        loop.__class__ = type(found.__name__, (kind, found), {})


class Fit:
    """Of all epochs."""

    trainer: Any

    def run(self) -> None:
        base: Any = super()
        with self.trainer.strategy.steps():
            base.run()


class Epoch:
    """Of the batches of an epoch."""

    trainer: Any
    batch_progress: Any
    restarting: bool
    done: bool
    _batches_that_stepped: int

    def reset(self) -> None:
        base: Any = super()
        count = self._batches_that_stepped
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", _Warning)  # that batches are read again
            base.reset()
        if self.trainer.strategy.handover.is_received:
            self._batches_that_stepped = count  # it would count the step that comes

    def on_run_start(self, data_fetcher: Any) -> None:
        """Within an epoch, passes over the batches that it has used."""
        base: Any = super()
        is_within = self.restarting
        base.on_run_start(data_fetcher)
        if is_within and not self.done:
            iter(data_fetcher)  # of this epoch: the one there is may have begun before it was known
            for _ in range(self.batch_progress.current.ready):
                next(data_fetcher)
        self.trainer.strategy.handover.begin_loop()

    def _broadcast_sigterm_tensor(self) -> None:
        """Before each batch: the other ranks may be within the step. A request to stop comes to all
        of them with the step."""


class Optimization:
    """Of one batch."""

    trainer: Any
    _make_closure: Any

    def run(self, optimizer: Any, batch_idx: int, kwargs: Any) -> Any:
        base: Any = super()
        if not self.trainer.fit_loop._should_accumulate():
            return base.run(optimizer, batch_idx, kwargs)
        closure = self._make_closure(kwargs, optimizer, batch_idx)
        self.trainer.strategy.accumulate(closure)
        return closure.consume_result().asdict()
