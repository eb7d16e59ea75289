"""Recovery for Hugging Face's Trainer. Import this module before you create TrainingArguments."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import pathlib
import re
import sys
import tempfile
from typing import Any, Optional, Union

import torch

import lockstep.torch.groups
from lockstep.errors import InvalidArgument, Stopped
from lockstep.torch.adapters import check_parts, refuse
from lockstep.torch.groups.control import control, is_replacement

# This module has the name of that package.
_trainer: Any = importlib.import_module("transformers.trainer")
_utils: Any = importlib.import_module("transformers.trainer_utils")
_CHECKPOINT = re.compile(rf"{_utils.PREFIX_CHECKPOINT_DIR}-(\d+)")

_NEEDED = ("_init_training_state", "_prepare_for_training", "_inner_training_loop",
           "_finalize_training", "_maybe_log_save_evaluate", "_get_num_items_in_batch",
           "_clip_grad_norm", "_get_grad_norm", "_save_checkpoint", "_get_output_dir")


class Recovers:
    """Put this class before Trainer to keep all other processes when one is lost:

        class MyTrainer(lockstep.transformers.Recovers, transformers.Trainer):
            pass

    The Trainer's own loop continues. `training_step` returns when all ranks have applied the step.
    If a rank is lost meanwhile, it joins a rendezvous with the replacement and computes the same
    batch again. The replacement's Trainer continues at the step of the others, as if from a
    checkpoint. The Trainer saves its checkpoints as before. `train` passes over checkpoints that
    are not complete. At a stop one rank writes what all of them hold.

    Errors of `train`: InvalidArgument (an argument that does not work with recovery; names it),
    those of lockstep.torch.groups.Job. With one process this class does nothing else.
    """

    # Of Trainer, which the class that users write is as well.
    args: Any
    state: Any
    accelerator: Any
    callback_handler: Any
    control: Any
    optimizer: Any
    lr_scheduler: Any
    _save_checkpoint: Any
    _get_output_dir: Any

    _steps: Optional[lockstep.torch.groups.Steps] = None  # while it trains on several ranks
    _loop: _Loop
    _model: Any  # wrapped
    _samples: list[Any]  # the batches of an update
    _waiting: list[Any]  # those of them that were given to training_step
    _norm: Any = None  # of the newest update's gradients

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        order = [one for one in cls.__mro__ if one in (Recovers, _trainer.Trainer)]
        if order != [Recovers, _trainer.Trainer]:
            raise InvalidArgument(
                f"{cls.__name__}: found a class that does not name lockstep.transformers.Recovers "
                "before transformers.Trainer; expected "
                f"class {cls.__name__}(lockstep.transformers.Recovers, transformers.Trainer)")

    def train(
        self, resume_from_checkpoint: Union[str, bool, None] = None, *arguments: Any, **named: Any
    ) -> Any:
        found = resume_from_checkpoint
        if found is True:
            found = _utils.get_last_checkpoint(self.args.output_dir) or found
        if isinstance(found, (str, os.PathLike)):
            found = _newest_whole(pathlib.Path(found))
        return self._super().train(found, *arguments, **named)

    def _inner_training_loop(
        self, *arguments: Any, resume_from_checkpoint: Optional[str] = None, **named: Any
    ) -> Any:
        if self.args.world_size == 1:
            return self._super()._inner_training_loop(
                *arguments, resume_from_checkpoint=resume_from_checkpoint, **named)
        _check(self, named.get("trial"))
        self.accelerator.rng_types = []  # a replacement would ask for the generator of others
        with tempfile.TemporaryDirectory() as folder:
            self._loop = _Loop(self, pathlib.Path(folder))
            if resume_from_checkpoint is None and is_replacement():
                resume_from_checkpoint = folder  # else the loop skips no batches
            return self._super()._inner_training_loop(
                *arguments, resume_from_checkpoint=resume_from_checkpoint, **named)

    def _super(self) -> Any:
        return super()

    def _init_training_state(
        self, max_steps: int, updates_per_epoch: int, epochs: int,
        resume_from_checkpoint: Optional[str], trial: Any,
    ) -> Any:
        """All parts are made before the loop asks where to begin, so that a replacement knows."""
        base = self._super()
        numbers = (max_steps, updates_per_epoch, epochs)
        begin = base._init_training_state(*numbers, resume_from_checkpoint, trial)
        if self.args.world_size == 1:
            return begin
        model, _ = base._prepare_for_training(max_steps, None, resume_from_checkpoint)
        self._model = model
        self._steps = lockstep.torch.groups.Steps(
            model=model, optimizer=self.optimizer.optimizer, loop=self._loop,
            step=self.state.global_step, steps_total=max_steps, seed=self.args.seed,
            extra={"scheduler": self.lr_scheduler})
        if not self._loop.is_received:
            return begin
        keeps, self.args.restore_callback_states_from_checkpoint = (
            self.args.restore_callback_states_from_checkpoint, True)
        begin = base._init_training_state(*numbers, str(self._loop.folder), trial)
        self.args.restore_callback_states_from_checkpoint = keeps
        return begin

    def _prepare_for_training(
        self, max_steps: int, train_dataloader: Any, resume_from_checkpoint: Optional[str]
    ) -> Any:
        if self._steps is None:
            return self._super()._prepare_for_training(
                max_steps, train_dataloader, resume_from_checkpoint)
        self.callback_handler.train_dataloader = train_dataloader
        return self._model, train_dataloader

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> Any:
        if self._steps is None:
            return self._super().get_batch_samples(epoch_iterator, num_batches, device)
        with control().agreed():  # `training_step` counts the items of all ranks, in the attempt
            self._samples, count = self._super().get_batch_samples(
                epoch_iterator, num_batches, device)
        self._waiting = []
        return self._samples, count

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """The last one of an update computes all of its batches, so that it can do so again."""
        base = self._super()
        if self._steps is None:
            return base.training_step(model, inputs, num_items_in_batch)
        self._loop.resume_figures()
        self._waiting.append(inputs)
        if len(self._waiting) < len(self._samples):
            return torch.zeros((), device=self.args.device)

        def compute() -> Any:
            count = base._get_num_items_in_batch(self._samples, self.args.device)
            total = torch.zeros((), device=self.args.device)
            for number, batch in enumerate(self._waiting, 1):
                is_last = number == len(self._waiting)
                with contextlib.nullcontext() if is_last else self.accelerator.no_sync(model):
                    total += base.training_step(model, dict(batch), count)
            return total

        def clip() -> None:
            has_bound = self.args.max_grad_norm > 0
            norm = base._clip_grad_norm(model) if has_bound else None
            self._norm = base._get_grad_norm(model, grad_norm=norm)

        try:
            return self._steps.take(compute, before_update=clip)
        except Stopped:
            self._save_alone(self._steps, model)
            raise

    def _save_alone(self, steps: lockstep.torch.groups.Steps, model: Any) -> None:
        """At a stop, on all ranks: one of them writes what all hold."""
        step = self.state.global_step
        if not steps.should_save(step):
            return
        folder = pathlib.Path(self._get_output_dir(None), f"{_utils.PREFIX_CHECKPOINT_DIR}-{step}")
        if _is_whole(folder):
            return  # a lower rank has written it, and left
        process = self.args.distributed_state
        rank = process.process_index
        process.process_index = 0  # the one that the Trainer lets write
        try:
            with control().agreed():
                self._save_checkpoint(model, None)
        finally:
            process.process_index = rank

    # The update is done already, and no gradient is left: optimizer.step() changes nothing.

    def _clip_grad_norm(self, model: Any) -> Any:
        return self._norm if self._steps else self._super()._clip_grad_norm(model)

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        return self._norm if self._steps else self._super()._get_grad_norm(model, grad_norm)

    def _maybe_log_save_evaluate(self, *arguments: Any, **named: Any) -> None:
        """The loss to log is that of all ranks already, so a log needs to ask no other rank."""
        needs_ranks = self.control.should_evaluate or self.control.should_save
        is_agreed = self._steps is not None and not needs_ranks
        with control().agreed() if is_agreed else contextlib.nullcontext():
            self._super()._maybe_log_save_evaluate(*arguments, **named)

    def _finalize_training(self, *arguments: Any, **named: Any) -> Any:
        if self._steps is not None:
            self._steps.close()
            self._steps = None
        return self._super()._finalize_training(*arguments, **named)


class _Loop:
    """What the loop of `trainer` counts, for a replacement's. `folder`: where that reads it, as if
    it were a checkpoint."""

    def __init__(self, trainer: Any, folder: pathlib.Path) -> None:
        self._trainer = trainer
        self.folder = folder
        self.is_received = False
        self._figures: Optional[list[float]] = None

    def state_dict(self) -> dict[str, Any]:
        trainer = self._trainer
        state = dataclasses.asdict(trainer.state)
        state["stateful_callbacks"] = _callback_states(trainer)
        # The loop makes them after the Job.
        figures = [] if not hasattr(trainer, "_tr_loss") else [
            float(trainer._tr_loss), trainer._total_loss_scalar,
            trainer._globalstep_last_logged, trainer._initial_global_step]
        return {"trainer": json.dumps(state), "figures": figures}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        (self.folder / _trainer.TRAINER_STATE_NAME).write_text(state["trainer"])
        self._figures = state["figures"]
        self.is_received = True

    def resume_figures(self) -> None:
        """Once the replacement's loop has begun: the losses of before count for its means."""
        if self._figures:
            trainer = self._trainer
            (loss, trainer._total_loss_scalar, trainer._globalstep_last_logged,
             trainer._initial_global_step) = self._figures
            trainer._tr_loss.fill_(loss)
        self._figures = None


def _callback_states(trainer: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in [*trainer.callback_handler.callbacks, trainer.control]:
        if isinstance(one, _trainer.ExportableState):
            found.setdefault(type(one).__name__, []).append(one.state())
    return found


def _newest_whole(found: pathlib.Path) -> Optional[str]:
    """`found`; where it is not whole, the newest whole one of fewer steps beside it. None: there is
    none."""
    steps = {path: int(match[1]) for path in found.parent.glob("*")
             if (match := _CHECKPOINT.fullmatch(path.name))}
    if found not in steps or _is_whole(found):
        return str(found)
    older = [path for path in steps if steps[path] < steps[found] and _is_whole(path)]
    newest = max(older, key=lambda path: steps[path], default=None)
    print(f"lockstep: {found} is incomplete: its {_trainer.TRAINER_STATE_NAME}, which is written "
          "last, is missing or cut off, because a process ended while it saved. Training begins "
          f"from {newest or 'the initial model'} instead", file=sys.stderr, flush=True)
    return None if newest is None else str(newest)


def _is_whole(checkpoint: pathlib.Path) -> bool:
    """Whether its last file is written, which is that of the Trainer's state."""
    try:
        json.loads((checkpoint / _trainer.TRAINER_STATE_NAME).read_text())
    except (OSError, ValueError):
        return False
    return True


def _check(trainer: Any, trial: Any) -> None:
    """Errors: InvalidArgument (what this cannot do; names it)."""
    check_parts("transformers", "5.24", [(_trainer.Trainer, _NEEDED)])
    args = trainer.args
    data = trainer.train_dataset
    refused = {
        "deepspeed": (trainer.is_deepspeed_enabled, "DistributedDataParallel"),
        "fsdp": (trainer.is_fsdp_enabled, "DistributedDataParallel, or fully_shard in a loop of "
                 "your own with lockstep.torch.groups.Job"),
        "parallelism_config": (args.parallelism_config is not None, "None"),
        "fp16": (args.fp16, "bf16=True, which needs no GradScaler"),
        "auto_find_batch_size": (args.auto_find_batch_size, "a batch size that fits"),
        "save_on_each_node": (args.save_on_each_node, "False: all ranks begin from one checkpoint, "
                              "and at a stop one rank writes it"),
        "eval_on_start": (args.eval_on_start, "trainer.evaluate() before train()"),
        "ignore_data_skip": (args.ignore_data_skip, "False: a replacement has to read the same "
                             "batches as the other ranks"),
        "include_num_input_tokens_seen": (args.include_num_input_tokens_seen != "no", "no"),
        "train_sampling_strategy": (args.train_sampling_strategy not in ("random", "sequential"),
                                    "random or sequential"),
        "use_seedable_sampler": (
            not args.accelerator_config.use_seedable_sampler, "True: a replacement has to read "
            "the samples in the same order as the other ranks"),
        "optim": (args.optim in ("lomo", "adalomo"), "an optimizer that updates in its step"),
        "train_dataset": (isinstance(data, torch.utils.data.IterableDataset),
                          "a dataset that returns samples by their number"),
        "trial": (trial is not None, "no search for hyperparameters"),
    }
    for name, (is_set, instead) in refused.items():
        if is_set:
            refuse("lockstep.transformers", name, getattr(args, name, None) or "a value", instead)
