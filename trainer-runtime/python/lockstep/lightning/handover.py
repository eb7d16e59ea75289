"""What the loop of Lightning's Trainer holds between two steps, for a replacement's."""

from __future__ import annotations

import importlib
from typing import Any

from lockstep.lightning.figures import Figures, packed, unpacked

_call: Any = importlib.import_module("lightning.pytorch.trainer.call")

# Of a ModelCheckpoint, which its state_dict leaves out: what it is to save next depends on them.
_OF_CHECKPOINTS = ("dirpath", "_last_global_step_saved", "_last_checkpoint_saved",
                   "_defer_save_until_validation")

# What else the job hands over.
_OF_JOB = ("state_dict", "optimizer_states", "lr_schedulers")


class Handover:
    """A Stateful of the loop for lockstep.torch.groups.Steps. A replacement's Trainer takes the
    state as if from a checkpoint."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._figures = Figures(trainer)
        self._restarts = False  # as the fit loop of the other ranks does
        self.is_received = False  # and the loop has not begun yet
        self.mark()

    def mark(self) -> None:
        """Between two steps. What comes after it, a replacement does again."""
        self.fit_loop: dict[str, Any] = self._trainer.fit_loop.state_dict()
        self._figures.keep()

    def put_back(self) -> None:
        """Before the step is computed again."""
        self._figures.put_back()

    def state_dict(self) -> dict[str, Any]:
        trainer = self._trainer
        self.put_back()
        checkpoint = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        for name in _OF_JOB:
            checkpoint.pop(name, None)
        checkpoint["loops"]["fit_loop"] = self.fit_loop
        return {"packed": packed(trainer, {
            "checkpoint": checkpoint,
            "checkpoint_callbacks": [
                {name: getattr(one, name) for name in _OF_CHECKPOINTS if hasattr(one, name)}
                for one in trainer.checkpoint_callbacks],
            "figures": self._figures.state(),
            "should_stop": trainer.should_stop,
            "restarts": trainer.fit_loop._restarting,
            "has_validated": trainer.fit_loop.epoch_loop.val_loop._has_run,
        })}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        trainer = self._trainer
        found = unpacked(trainer, state["packed"])
        for callback, values in zip(trainer.checkpoint_callbacks, found["checkpoint_callbacks"]):
            vars(callback).update(values)
        connector = trainer._checkpoint_connector
        connector._loaded_checkpoint = {
            **found["checkpoint"], "state_dict": trainer.lightning_module.state_dict()}
        connector.restore_datamodule()
        _call._call_lightning_module_hook(
            trainer, "on_load_checkpoint", connector._loaded_checkpoint)
        connector.restore_callbacks()
        connector.restore_loops()
        connector._loaded_checkpoint = {}
        self._figures.load(found["figures"])
        trainer.should_stop = found["should_stop"]
        self._restarts = found["restarts"]
        epochs = trainer.fit_loop.epoch_loop
        epochs.val_loop._has_run = found["has_validated"]
        total = epochs.batch_progress.total  # the batch at which it begins is none that was lost
        total.ready = total.started = total.processed = total.completed
        self.is_received = True

    def begin_loop(self) -> None:
        """A replacement's loop is about to read its first batch. From now on it is within an epoch
        as the loops of the other ranks are, and not as after a restart of all, which leaves out
        some of what comes at the epoch's end."""
        if self.is_received:
            self.is_received = False
            self._trainer.fit_loop.epoch_loop.restarting = False
            self._trainer.fit_loop._restarting = self._restarts
