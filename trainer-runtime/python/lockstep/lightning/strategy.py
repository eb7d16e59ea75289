"""Recovery for the Trainer of PyTorch Lightning."""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional

from lockstep.errors import InvalidArgument, LockstepError, Status, Stopped
from lockstep.lightning import loops
from lockstep.lightning.handover import Handover
from lockstep.lightning.refusals import check_arguments, check_data, check_steps, check_trainer

if TYPE_CHECKING:
    from lockstep.torch.groups import Steps

_strategies: Any = importlib.import_module("lightning.pytorch.strategies")
_states: Any = importlib.import_module("lightning.pytorch.trainer.states")


class Recovers(_strategies.DDPStrategy):  # type: ignore[misc]
    """Give it to the Trainer in place of "ddp" to keep all other processes when one is lost:

        trainer = lightning.Trainer(strategy=lockstep.lightning.Recovers(), ...)

    The Trainer's own loop continues. `optimizer.step` returns when all ranks have applied the step.
    If a rank is lost meanwhile, it joins a rendezvous with the replacement and computes the same
    batches again. The replacement's Trainer continues at the step of the others, as if from a
    checkpoint. ModelCheckpoint saves as before. At a stop one rank writes what all of them hold.

    Arguments are those of DDPStrategy. Errors of it and of `fit`: InvalidArgument (what does not
    work with recovery; names it), those of lockstep.torch.groups.Job. With one process it is
    DDPStrategy and nothing else.
    """

    handover: Handover  # while `fit` runs

    def __init__(self, **arguments: Any) -> None:
        check_arguments(arguments)
        super().__init__(**arguments)
        self._steps: Optional[Steps] = None  # while it trains on several ranks
        self._parts_count = 0  # batches of the step in progress
        self._is_writer = False  # of a checkpoint, in place of rank 0

    def setup_distributed(self) -> None:
        if self._has_others():
            importlib.import_module("lockstep.torch.groups")
        super().setup_distributed()

    def _has_others(self) -> bool:
        return bool(self.num_nodes * self.num_processes > 1)

    def setup(self, trainer: Any) -> None:
        super().setup(trainer)
        if trainer.state.fn != _states.TrainerFn.FITTING or not self._has_others():
            return
        check_trainer(trainer)
        fit = trainer.fit_loop
        loops.put_before(fit, loops.Fit)
        loops.put_before(fit.epoch_loop, loops.Epoch)
        loops.put_before(fit.epoch_loop.automatic_optimization, loops.Optimization)
        # Lightning's handler of SIGTERM broadcasts, at any moment. The session has its own.
        trainer._signal_connector.register_signal_handlers = lambda: None
        if _control().answers_itself:
            trainer.num_sanity_val_steps = 0  # of a replacement: the others have done it

    @contextlib.contextmanager
    def steps(self) -> Iterator[None]:
        """Around the loop. What a replacement would not call at the same time as the other ranks
        comes before it."""
        trainer = self.lightning_module.trainer
        fit = trainer.fit_loop
        fit.setup_data()
        if fit._combined_loader is None or fit.max_batches == 0:
            yield  # nothing to train with
            return
        check_data(trainer)
        if trainer.enable_validation:
            trainer.validating = True
            fit.epoch_loop.val_loop.setup_data()
            trainer.training = True
        self.handover = Handover(trainer)
        self._steps = self._make_steps(trainer)
        yield
        self.handover.mark()
        self._steps.close()
        self._steps = None

    def _make_steps(self, trainer: Any) -> Steps:
        from lockstep.torch.groups import Steps

        total = trainer.estimated_stepping_batches
        check_steps(total)
        if not _control().answers_itself:
            with _control().silent(
                    "called by on_save_checkpoint or by state_dict of a callback, expected them to "
                    "call no other rank: one rank alone hands over its state"):
                self.handover.state_dict()
        schedulers = enumerate(trainer.lr_scheduler_configs)
        made = Steps(
            model=self.model, optimizer=self.optimizers[0], loop=self.handover,
            step=trainer.global_step, steps_total=int(total),
            seed=int(os.environ.get("PL_GLOBAL_SEED", 0)),
            extra={f"lr_scheduler {number}": one.scheduler for number, one in schedulers})
        self._check_step(made)
        return made

    def _check_step(self, steps: Steps) -> None:
        found = self.lightning_module.trainer.global_step
        if found != steps.step_count:
            raise LockstepError(
                f"optimizer_step: the Trainer counts {found} steps, but {steps.step_count} were "
                "taken: call optimizer.step once for each time that the Trainer calls "
                "optimizer_step of the LightningModule", Status.MISMATCH)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        super().on_train_batch_start(batch, batch_idx)
        if self._steps is not None and self._parts_count == 0:
            self._check_step(self._steps)
            self.handover.mark()

    def accumulate(self, closure: Callable[[], Any]) -> None:
        """Computes a batch after which no step comes."""
        assert self._steps is not None

        def compute() -> Any:
            with self.block_backward_sync():
                return closure()

        with self._saving_at_stop(self._steps):
            self._steps.add(self._part(compute))

    def optimizer_step(
        self, optimizer: Any, closure: Callable[[], Any], model: Any = None, **named: Any
    ) -> Any:
        if self._steps is None:
            return super().optimizer_step(optimizer, closure, model, **named)
        if named:
            raise InvalidArgument(
                f"optimizer.step: {next(iter(named))} found, expected closure alone: "
                "lockstep.lightning.Recovers calls the step of the optimizer without arguments")
        module = model or self.lightning_module

        def before_update() -> None:  # hooks, and the clipping of gradients
            self.precision_plugin._after_closure(module, optimizer)

        with self._saving_at_stop(self._steps):
            loss = self._steps.take(self._part(closure), before_update)
        self._parts_count = 0
        return loss

    def _part(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """One batch of a step, which may be computed again."""
        number = self._parts_count
        self._parts_count += 1
        forward = self.lightning_module.forward
        was_computed = False

        def compute() -> Any:
            nonlocal was_computed
            if was_computed and number == 0:
                self.handover.put_back()
            was_computed = True
            # Lightning leaves its own one there if the model's forward pass raises.
            self.lightning_module.forward = forward
            return closure()

        return compute

    # While a replacement is set up, and at a stop, the other ranks cannot answer.

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        return obj if _answers_itself() else super().broadcast(obj, src)

    # At a stop.

    @contextlib.contextmanager
    def _saving_at_stop(self, steps: Steps) -> Iterator[None]:
        try:
            yield
        except Stopped as stop:
            _control().is_agreed = True  # to the end of this process: callbacks may save as well
            self._save_alone(steps, stop)
            raise

    def _save_alone(self, steps: Steps, stop: Stopped) -> None:
        """At a stop, on all ranks: one of them writes what all hold."""
        trainer = self.lightning_module.trainer
        callback = trainer.checkpoint_callback
        if not hasattr(callback, "save_on_exception") or not steps.should_save(trainer.global_step):
            return
        path = callback.format_checkpoint_name(metrics=callback._monitor_candidates(trainer))
        if callback._fs.exists(path):
            found = self.load_checkpoint(path, weights_only=False)
            if found["global_step"] == trainer.global_step:
                return  # a lower rank has written it, and left
        self._is_writer = True
        keeps, callback.save_on_exception = callback.save_on_exception, True
        callback.on_exception(trainer, self.lightning_module, stop)
        callback.save_on_exception = keeps

    @property
    def is_global_zero(self) -> bool:
        return self._is_writer or bool(super().is_global_zero)

    def save_checkpoint(self, checkpoint: Any, *arguments: Any, **named: Any) -> None:
        if self._is_writer:  # within a step, which comes again
            checkpoint["loops"]["fit_loop"] = self.handover.fit_loop
        super().save_checkpoint(checkpoint, *arguments, **named)


def _control() -> Any:
    return importlib.import_module("lockstep.torch.groups.control").control()


def _answers_itself() -> bool:
    module = importlib.import_module("lockstep.torch.groups.control")
    return bool(module.is_open() and module.control().answers_itself)
