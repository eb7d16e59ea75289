"""What lockstep.lightning.Recovers cannot recover."""

from __future__ import annotations

import importlib
import math
from typing import Any, Mapping

import torch

from lockstep.torch.adapters import check_parts, refuse

_callbacks: Any = importlib.import_module("lightning.pytorch.callbacks")
_fetchers: Any = importlib.import_module("lightning.pytorch.loops.fetchers")
_loops: Any = importlib.import_module("lightning.pytorch.loops")
_optimization: Any = importlib.import_module("lightning.pytorch.loops.optimization")
_precision: Any = importlib.import_module("lightning.pytorch.plugins.precision")
_distributed: Any = importlib.import_module("lightning.fabric.utilities.distributed")
_connector: Any = importlib.import_module(
    "lightning.pytorch.trainer.connectors.checkpoint_connector")

_MODULE = "lockstep.lightning"

# What our classes replace or call.
_NEEDED = (
    (_loops._FitLoop, ("run", "setup_data", "state_dict", "load_state_dict")),
    (_loops._TrainingEpochLoop, ("reset", "on_run_start", "_broadcast_sigterm_tensor")),
    (_optimization._AutomaticOptimization, ("run", "_make_closure")),
    (_precision.Precision, ("_after_closure",)),
    (_connector._CheckpointConnector, ("dump_checkpoint", "restore_datamodule",
                                       "restore_callbacks", "restore_loops")),
)

# Callbacks that change the training, and hand over no state that tells how.
_CALLBACKS = {
    "BatchSizeFinder": "a batch size that fits",
    "LearningRateFinder": "a learning rate that you have found before",
    "GradientAccumulationScheduler": "accumulate_grad_batches of the Trainer",
    "BaseFinetuning": "parameters that are trained from the first step on",
    "ModelPruning": "a model that is pruned before or after the training",
    "StochasticWeightAveraging": "no average of weights",
    "WeightAveraging": "no average of weights",
}

# Of the strategy. The gradients of a step that was lost may be in their state.
_ARGUMENTS = ("ddp_comm_state", "ddp_comm_hook", "ddp_comm_wrapper", "model_averaging_period")


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Those of the strategy. Errors: InvalidArgument (names one)."""
    for name in _ARGUMENTS:
        if arguments.get(name) is not None:
            refuse(_MODULE, name, arguments[name], "none")
    start = arguments.get("start_method", "popen")
    if start != "popen":
        refuse(_MODULE, "start_method", start, "popen, as Lockstep starts the processes")


def check_trainer(trainer: Any) -> None:
    """Before the loop begins. Errors: InvalidArgument (names what it is)."""
    check_parts("lightning", "2.6", _NEEDED)
    module = trainer.lightning_module
    if not module.automatic_optimization:
        refuse(_MODULE, "automatic_optimization", False, "True")
    optimizers = [type(one).__name__ for one in trainer.optimizers]
    if len(optimizers) != 1 or optimizers[0] == "_MockOptimizer":  # which stands for none
        refuse(_MODULE, "configure_optimizers", ", ".join(optimizers), "one optimizer")
    plugin = trainer.precision_plugin
    known = (_precision.Precision.optimizer_step, _precision.MixedPrecision.optimizer_step)
    if type(plugin).optimizer_step not in known or getattr(plugin, "scaler", None) is not None:
        refuse(_MODULE, "precision", plugin.precision, "one without a GradScaler, such as "
               "bf16-mixed or 32-true")
    if trainer.reload_dataloaders_every_n_epochs:
        refuse(_MODULE, "reload_dataloaders_every_n_epochs",
               trainer.reload_dataloaders_every_n_epochs, "0")
    if getattr(trainer, "_val_check_time_interval", None) is not None:
        refuse(_MODULE, "val_check_interval", f"{trainer._val_check_time_interval} s",
               "a number of batches or a part of an epoch: the clocks of ranks differ")
    for name, instead in _CALLBACKS.items():
        if any(isinstance(one, getattr(_callbacks, name)) for one in trainer.callbacks):
            refuse(_MODULE, "callbacks", name, instead)


def check_data(trainer: Any) -> None:
    """Once its loaders are made. Errors: InvalidArgument (a replacement would read other batches
    than the other ranks)."""
    fit = trainer.fit_loop
    if isinstance(fit._data_fetcher, _fetchers._DataLoaderIterDataFetcher):
        refuse(_MODULE, "training_step", "the argument dataloader_iter", "batch")
    for loader in fit._combined_loader.flattened:
        found = _doubt(loader)
        if found is not None:
            refuse(_MODULE, "train_dataloader", found, "a DataLoader of a dataset that returns "
                   "samples by their number, with a sampler whose order depends on the epoch and a "
                   "seed alone: shuffle=True or False, a DistributedSampler, or one of your own "
                   "with set_epoch")


def check_steps(total: float) -> None:
    """`total`: as the Trainer estimates it. Errors: InvalidArgument."""
    if not 0 < total < math.inf:
        refuse(_MODULE, "max_steps", total, "max_steps or max_epochs, and a number of batches that "
               "is known")


def _doubt(loader: Any) -> Any:
    """What makes its batches unknown to another process; None: nothing does."""
    if not isinstance(loader, torch.utils.data.DataLoader) or hasattr(loader, "load_state_dict"):
        return type(loader).__name__
    if isinstance(loader.dataset, torch.utils.data.IterableDataset):
        return "an IterableDataset"
    batches: Any = loader.batch_sampler
    own_batches = batches is not None and type(batches) is not torch.utils.data.BatchSampler
    sampler: Any = batches if own_batches else loader.sampler
    if isinstance(sampler, _distributed.DistributedSamplerWrapper):
        sampler = sampler.dataset._sampler
    is_known = hasattr(sampler, "set_epoch") or type(
        sampler) is torch.utils.data.SequentialSampler
    return None if is_known else type(sampler).__name__
