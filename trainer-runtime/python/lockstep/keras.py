"""A Keras callback that shows a program's progress in the job's status. It works with tf-keras,
tf.keras and Keras 3, and imports none of them."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, Callable, Optional, Protocol

from lockstep.arguments import whole_number
from lockstep.errors import NoJob
from lockstep.library import Phase
from lockstep.reporting import Reporter
from lockstep.session import Progress

__all__ = ["Report"]

Logs = Optional[Mapping[str, Any]]


class Reports(Protocol):
    """An object that takes reports: a session of this process, or a Reporter."""

    def report(self, progress: Progress) -> None:
        """Shows `progress`."""


class Report:
    """Pass it in `callbacks` of `Model.fit`. After each batch it reports step, total steps, epoch,
    loss, accuracy and phase. The step counts updates of the optimizer, including updates of earlier
    runs that BackupAndRestore has restored. The loss is Keras's mean over the epoch so far.

    Use it on every rank, for example on all workers of MultiWorkerMirroredStrategy: the job's
    status combines the reports of all pods. Outside of a job, and in roles without ranks, it logs
    one line with the logger "lockstep" and reports nothing.

    `samples_per_step`: samples of all ranks together, for the rate that is shown. The rate is the
    mean of this `fit` so far, without evaluations and without the first batch, which compiles.
    None: no rate is shown.
    `session`: an open session of this process. None: the session of `lockstep.horovod` after
    `hvd.init`, else a session for reports only, from the start of `fit` to its end.
    Errors: InvalidArgument; at the start of `fit`, those of `lockstep_open`.
    """

    def __init__(
        self, samples_per_step: Optional[int] = None, session: Optional[Reports] = None
    ) -> None:
        self._samples_per_step = (
            None if samples_per_step is None
            else whole_number("samples_per_step", samples_per_step, least=1))
        self._session = session
        self._own: Optional[Reporter] = None
        self.model: Any = None
        self.params: dict[str, Any] = {}
        self._is_fitting = False
        self._step: Optional[int] = None  # None: the run's first batch has not begun
        self._steps_total: Optional[int] = None
        self._epoch = 0
        self._first_batch = 0  # of those that the next end of a batch tells of
        self._reported_at = 0.0
        self._steps_timed = 0  # in the seconds of the rate
        self._seconds = 0.0
        self._told: Optional[Progress] = None  # the newest of this run

    def on_train_begin(self, logs: Logs = None) -> None:
        """Opens the session for reports."""
        self._is_fitting = True
        self._step = None
        self._told = None
        self._steps_timed, self._seconds = 0, 0.0
        if self._session is None:
            self._session = _of_horovod()
        if self._session is None and self._own is None:
            self._own = _open()
        self._reported_at = time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Notes the epoch."""
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """At the first batch, reads the first step: by then all callbacks have restored."""
        self._first_batch = batch
        if self._step is None:
            self._step = _updates_of(self.model)
            self._steps_total = _steps_total(self.params, self._step, self._epoch, batch)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Reports. With `steps_per_execution` above 1, Keras calls this for the last batch only."""
        if self._step is None:
            return
        taken = batch - self._first_batch + 1
        self._step += taken
        times = _times_told(self.model)
        now = time.monotonic()
        self._steps_timed += taken
        self._seconds += now - self._reported_at
        samples = self._samples_per_step
        rate = None
        if samples is not None:
            rate = samples * self._steps_timed / max(self._seconds, 1e-9)
        if self._told is None:
            self._steps_timed, self._seconds = 0, 0.0
        self._reported_at = now
        self._tell(Progress(
            step=self._step,
            steps_total=self._steps_total,
            data_epoch=self._epoch,
            sample_count=None if samples is None else samples * taken // _world_size(),
            loss=_figure(logs, times, "loss"),
            accuracy=_share(_figure(logs, times, "accuracy", "acc", "sparse_categorical_accuracy")),
            samples_per_second=rate,
            phase=Phase.TRAINING,
        ))

    def on_test_begin(self, logs: Logs = None) -> None:
        """Shows that `fit` evaluates."""
        self._show(Phase.EVALUATING)

    def on_test_end(self, logs: Logs = None) -> None:
        """Shows that `fit` trains again."""
        self._show(Phase.TRAINING)
        self._reported_at = time.monotonic()

    def on_train_end(self, logs: Logs = None) -> None:
        """Closes the session for reports; the status keeps the last report."""
        self._is_fitting = False
        if self._own is not None:
            self._own.close()
            self._own = None

    def set_model(self, model: Any) -> None:
        """Called by Keras."""
        self.model = model

    def set_params(self, params: dict[str, Any]) -> None:
        """Called by Keras, with `epochs` and `steps` if known."""
        self.params = params

    def _show(self, phase: Phase) -> None:
        if self._is_fitting and self._told is not None:
            self._tell(dataclasses.replace(self._told, phase=phase))

    def _tell(self, progress: Progress) -> None:
        self._told = progress
        target = self._session if self._session is not None else self._own
        if target is not None:
            target.report(progress)

    def __getattr__(self, name: str) -> Callable[..., object]:
        """Keras's other hooks, public and its own (`_implements_train_batch_hooks`)."""
        if name.startswith("on_"):
            return _nothing
        if name == "_implements_train_batch_hooks":
            return _yes
        if name in ("_implements_test_batch_hooks", "_implements_predict_batch_hooks"):
            return _no
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _nothing(*_: object, **__: object) -> None:
    """A hook that has nothing to report."""


def _yes() -> bool:
    return True


def _no() -> bool:
    return False


def _of_horovod() -> Optional[Reports]:
    """A process has one session: that which `hvd.init` has opened, if it was called."""
    process = sys.modules.get("lockstep.horovod.process")
    if process is None or not process.is_initialized():
        return None
    world: Reports = process.current()
    return world


def _open() -> Optional[Reporter]:
    try:
        return Reporter()
    except NoJob as reason:
        logging.getLogger("lockstep").warning("lockstep.keras.Report is off: %s", reason)
        return None


def _world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def _updates_of(model: Any) -> int:
    """How many updates the optimizer has made; 0 for a model that is not compiled with one."""
    iterations = getattr(getattr(model, "optimizer", None), "iterations", None)
    if iterations is None:
        return 0
    return int(iterations.numpy() if hasattr(iterations, "numpy") else iterations)


def _steps_total(
    params: Mapping[str, Any], step: int, epoch: int, batch: int
) -> Optional[int]:
    """Updates at the end of a run that is at `step`, before `batch` of `epoch`."""
    epochs, steps = params.get("epochs"), params.get("steps")
    if not epochs or not steps or steps < 0:
        return None
    return step + int((epochs - epoch) * steps) - batch


def _times_told(model: Any) -> int:
    """How many times its own size each figure is that Keras tells after a batch.

    Under MultiWorkerMirroredStrategy it adds up what all replicas have, each of which holds the
    mean of all already (`reduce_per_replica` of tf-keras 2.21). The figures of an epoch's end, and
    those of other strategies, are right.
    """
    strategy = getattr(model, "distribute_strategy", None)
    names = [one.__name__ for one in type(strategy).__mro__]
    is_added_up = getattr(model, "distribute_reduction_method", None) in ("auto", "sum")
    if "CollectiveAllReduceStrategy" not in names or _world_size() == 1 or not is_added_up:
        return 1
    return int(strategy.num_replicas_in_sync)  # type: ignore[union-attr]


def _figure(logs: Logs, times: int, *names: str) -> Optional[float]:
    for name in names:
        if logs is not None and name in logs:
            return float(logs[name]) / times
    return None


def _share(accuracy: Optional[float]) -> Optional[float]:
    """A metric of the program's own that is called accuracy may be no share, and then is none."""
    return accuracy if accuracy is not None and 0 <= accuracy <= 1 + 1e-6 else None
