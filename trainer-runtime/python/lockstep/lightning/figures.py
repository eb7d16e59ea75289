"""What a module logs while it trains, which a step that is computed again must not count twice."""

from __future__ import annotations

import importlib
import io
import pickle
from typing import Any

import torch

from lockstep.errors import InvalidArgument

_Metric: Any = importlib.import_module("torchmetrics").Metric

# Of the connector: what callbacks look at, such as the metric that a ModelCheckpoint monitors, and
# whether the epoch's first batch is to come, which resets what is logged.
_NEWEST = ("_callback_metrics", "_logged_metrics", "_progress_bar_metrics", "_first_loop_iter",
           "_current_fx")

# Of a Metric, beside its states.
_COUNTS = ("_update_count", "_computed", "_forward_cache")


class Figures:
    """Those of the module that `trainer` trains."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._results: dict[str, dict[str, Any]] = {}
        self._states: dict[str, dict[str, Any]] = {}

    def keep(self) -> None:
        """Notes them as they are before a step."""
        # Lightning makes new tensors when it adds to these.
        self._results = {key: dict(vars(one)) for key, one in self._logged().items()}
        self._states = {name: _state_of(one) for name, one in self._metrics().items()}

    def put_back(self) -> None:
        """Those that were noted."""
        logged = self._logged()
        for key in list(logged):
            if key not in self._results:
                del logged[key]
                continue
            vars(logged[key]).clear()
            vars(logged[key]).update(self._results[key])
        for name, metric in self._metrics().items():
            if name in self._states:
                vars(metric).update(_copied(self._states[name]))

    def state(self) -> dict[str, Any]:
        """For a replacement: means of an epoch count on from those of another rank."""
        connector = self._trainer._logger_connector
        return {
            "logged": dict(self._logged()),
            "metrics": {name: _state_of(one) for name, one in self._metrics().items()},
            "newest": {name: getattr(connector, name) for name in _NEWEST},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Takes over those of another rank."""
        device = self._trainer.strategy.root_device
        logged = self._logged()
        logged.clear()
        logged.update(state["logged"])
        logged.to(device)
        for name, metric in self._metrics().items():
            vars(metric).update(state["metrics"][name])
            metric.to(device)
        for name, newest in state["newest"].items():
            setattr(self._trainer._logger_connector, name, newest)

    def _logged(self) -> Any:
        return self._trainer.fit_loop.epoch_loop._results

    def _metrics(self) -> dict[str, Any]:
        """The program's own, by name."""
        modules = self._trainer.lightning_module.named_modules()
        return {name: one for name, one in modules if isinstance(one, _Metric)}


def _state_of(metric: Any) -> dict[str, Any]:
    return _copied({name: getattr(metric, name) for name in (*metric._defaults, *_COUNTS)})


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    """Metrics may add to their tensors and lists in place."""
    return {
        name: one.clone() if isinstance(one, torch.Tensor) else
        list(one) if isinstance(one, list) else one for name, one in state.items()}


def packed(trainer: Any, state: Any) -> torch.Tensor:
    """`state` in bytes. The trainer's own parts, which it may point to, are left out: the other
    rank has its own. Shapes: result [bytes] of uint8. Errors: InvalidArgument (what it holds cannot
    be handed to another process)."""
    names = {id(one): name for name, one in _parts(trainer).items()}

    class Packer(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            return names.get(id(value))

    written = io.BytesIO()
    try:
        Packer(written).dump(state)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InvalidArgument(
            f"state of the Trainer: {error}; expected callbacks, reduce_fx of self.log and "
            "on_save_checkpoint whose values can be pickled, as a replacement gets them") from error
    return torch.frombuffer(bytearray(written.getvalue()), dtype=torch.uint8)


def unpacked(trainer: Any, state: torch.Tensor) -> Any:
    """What was packed by another rank."""
    parts = _parts(trainer)

    class Unpacker(pickle.Unpickler):
        def persistent_load(self, name: Any) -> Any:
            return parts[name]

    return Unpacker(io.BytesIO(state.numpy().tobytes())).load()


def _parts(trainer: Any) -> dict[str, Any]:
    modules = {f"module {name}": one for name, one in trainer.lightning_module.named_modules()}
    return {"trainer": trainer, "strategy": trainer.strategy, **modules}
