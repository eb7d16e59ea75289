"""Horovod's callbacks for Keras 2 and 3. This module imports neither; its classes are combined with
the `Callback` class of the Keras in use."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Callable, Optional, Union

import numpy as np

from lockstep.errors import InvalidArgument
from lockstep.horovod import host, variables
from lockstep.horovod.arguments import Reduction
from lockstep.horovod.elastic import State
from lockstep.horovod.process import rank, size

Logs = Optional[MutableMapping[str, Any]]


class _Callback:
    """What Keras gives each callback."""

    model: Any
    params: dict[str, Any]


def of_keras(kind: type[_Callback], keras: Any) -> Any:
    """`kind` as a callback of that Keras, by Horovod's name."""
    return type(kind.__name__ + "Callback", (kind, keras.callbacks.Callback),
                {"__doc__": kind.__doc__})


class BroadcastGlobalVariables(_Callback):
    """After the first batch of the first `fit`, copies model and optimizer from rank `root_rank` to
    all ranks."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        """`device`: as `check_device`."""
        super().__init__()
        check_device("device", device)
        self.root_rank = root_rank
        self.broadcast_done = False

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if self.broadcast_done:
            return
        variables.broadcast_now(variables.of_model(self.model), self.root_rank, name="model")
        variables.broadcast_now(
            variables.of_optimizer(self.model.optimizer), self.root_rank, name="optimizer")
        self.broadcast_done = True


class MetricAverage(_Callback):
    """At the end of each epoch, replaces the epoch's metrics by their means over all ranks, for the
    callbacks after this one. All ranks must have metrics with the same names."""

    def __init__(self, device: str = "") -> None:
        """`device`: as `check_device`."""
        super().__init__()
        check_device("device", device)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if not logs:
            return
        names = sorted(logs)
        own = [np.asarray(logs[name], np.float64) for name in names]
        means = host.reduce(own, Reduction(), "metrics " + ", ".join(names))
        for name, mean in zip(names, means):
            logs[name] = float(mean) if mean.ndim == 0 else mean


class LearningRateSchedule(_Callback):
    """From `start_epoch` to before `end_epoch`, sets the learning rate to `initial_lr` times
    `multiplier(epoch)`. With `staircase`, `epoch` is the number of the epoch; else it includes the
    part of the epoch that is done. A number as `multiplier` is raised to the power of the epochs
    since `start_epoch`.

    With `momentum_correction`, momentum is scaled with the rate
    (https://arxiv.org/abs/1706.02677). Errors: InvalidArgument.
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: Union[float, Callable[[float], float]],
        start_epoch: int = 0,
        end_epoch: Optional[int] = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
    ) -> None:
        super().__init__()
        if initial_lr is None:
            raise InvalidArgument("initial_lr: None found, expected a number")
        if steps_per_epoch is not None and steps_per_epoch < 0:
            raise InvalidArgument(
                f"steps_per_epoch: {steps_per_epoch} found, expected 1 or more, or 0 for Keras's "
                "value")
        self.initial_lr = initial_lr
        self.multiplier = multiplier
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0
        self._own_momentum: Optional[float] = None  # of a batch that has another one

    def on_train_begin(self, logs: Logs = None) -> None:
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self.params.get("steps")
            if not self.steps_per_epoch:
                raise InvalidArgument(
                    "steps_per_epoch: None found, expected a number: Keras does not know the "
                    "number of steps of this data")

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        rate = self.rate_of(self.current_epoch, batch)
        if rate is not None:
            self._set(rate)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if self._own_momentum is not None:
            self.model.optimizer.momentum = self._own_momentum
            self._own_momentum = None

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if logs is not None:
            logs["lr"] = _number(self.model.optimizer.learning_rate)

    def rate_of(self, epoch: int, batch: int) -> Optional[float]:
        """That which begins with a batch; None: it stays."""
        if epoch < self.start_epoch or (self.end_epoch is not None and epoch >= self.end_epoch):
            return None
        if not self.staircase:
            return self.initial_lr * self._multiple_of(epoch + batch / (self.steps_per_epoch or 1))
        return self.initial_lr * self._multiple_of(epoch) if batch == 0 else None

    def _multiple_of(self, epoch: float) -> float:
        if callable(self.multiplier):
            return self.multiplier(epoch)
        power: float = self.multiplier ** (epoch - self.start_epoch)
        return power

    def _set(self, rate: float) -> None:
        optimizer = self.model.optimizer
        before = _number(optimizer.learning_rate)
        optimizer.learning_rate = rate
        momentum = getattr(optimizer, "momentum", None)
        if not self.momentum_correction or momentum is None or rate == before or before == 0:
            return
        if not isinstance(momentum, (int, float)):
            self._own_momentum = _number(momentum)
            optimizer.momentum = self._own_momentum * rate / before
        elif momentum != 0:
            # It is a number that graphs were compiled with. What it is multiplied with is not.
            for gathered in (getattr(optimizer, "momentums", None)
                             or getattr(optimizer, "_momentums", None) or []):
                now = np.asarray(gathered.numpy())
                gathered.assign(now * np.asarray(rate / before, now.dtype))


class LearningRateWarmup(LearningRateSchedule):
    """In the first `warmup_epochs` epochs, raises the learning rate batch by batch from
    `initial_lr` divided by the number of ranks to `initial_lr`. 0: no warm-up. Errors:
    InvalidArgument."""

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
        verbose: int = 0,
    ) -> None:
        if not warmup_epochs >= 0:  # not a number is none of them
            raise InvalidArgument(f"warmup_epochs: {warmup_epochs} found, expected 0 or more")
        super().__init__(
            initial_lr, self._warm_up, 0, warmup_epochs, False, momentum_correction,
            steps_per_epoch)
        self.verbose = verbose

    def _warm_up(self, epoch: float) -> float:
        """The last batch of an epoch has the rate of the epoch's end."""
        assert self.steps_per_epoch is not None and self.end_epoch is not None
        done = epoch + 1 / self.steps_per_epoch
        return (done * (size() - 1) / self.end_epoch + 1) / size()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self.end_epoch == epoch + 1 and self.verbose > 0 and rank() == 0:
            rate = _number(self.model.optimizer.learning_rate)
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.")


class CommitState(_Callback):
    """Commits the state after each `batches_per_commit` batches, and after each epoch."""

    def __init__(self, state: State, batches_per_commit: int = 1) -> None:
        super().__init__()
        if batches_per_commit < 1:
            raise InvalidArgument(
                f"batches_per_commit: {batches_per_commit} found, expected 1 or more")
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Logs = None) -> None:
        self.batches_remaining = self.batches_per_commit

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.state.commit()
            self.batches_remaining = self.batches_per_commit

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.commit()


class UpdateBatchState(_Callback):
    """Keeps the number of the batch in `state.batch`, and sets it to 0 at the end of an epoch.
    After a loss, Keras itself begins the epoch again."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.batch = 0


class UpdateEpochState(_Callback):
    """Keeps the number of completed epochs in `state.epoch`, including those before a loss."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Logs = None) -> None:
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.epoch = self.initial_epoch + epoch + 1


def check_device(name: str, device: str) -> None:
    """Arrays travel through the host's memory, whatever Horovod's arguments for devices say.
    Errors: InvalidArgument (one that is not the host)."""
    if device and "cpu" not in device.lower():
        raise InvalidArgument(
            f"{name}: {device!r} found, expected '': all data is sent through the host's memory")


def _number(variable: Any) -> float:
    """Of a number, or a variable's."""
    return float(variable.numpy() if hasattr(variable, "numpy") else variable)
