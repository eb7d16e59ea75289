"""Recovery for the loop of another library, such as a trainer."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator, Mapping, Optional

import torch

from lockstep.errors import InvalidArgument, LockstepError, Mismatch, Status
from lockstep.library import Phase
from lockstep.session import Progress
from lockstep.torch.groups.job import Job
from lockstep.torch.groups.shards import ProgramSaves, Sharded, adapter_of
from lockstep.torch.holdings import Stateful
from lockstep.torch.options import JobOptions
from lockstep.torch.sampler import Sampler
from lockstep.torch.state import broadcast_state

Compute = Callable[[], torch.Tensor]


class Steps(Job):
    """A Job for the loop of another library, which reads the batches and counts the steps:

        steps = Steps(model=model, optimizer=optimizer, loop=counters, step=0, steps_total=1000)
        ... for each step of the loop:
            loss = steps.take(lambda: backward(batch))
        steps.close()

    `take` returns when the step is applied on all ranks. If a rank is lost, `take` joins a
    rendezvous with the replacement and computes the same batch again, so the loop itself never goes
    back. A loop that accumulates gradients calls `add` for each batch but the last of a step. A
    replacement gets the model, the optimizer, `extra` and `loop`. `loop` holds the loop's
    own counters, which may differ between ranks; the replacement's loop has to continue from them.
    The loop saves its own checkpoints.

    Errors: those of Job; InvalidArgument (a model of fully_shard). Thread: one.
    """

    _rolls_forward = True

    def __init__(
        self,
        *,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        loop: Stateful,
        step: int,
        steps_total: int,
        seed: int = 0,
        extra: Optional[Mapping[str, Stateful]] = None,
        options: JobOptions = JobOptions(),
    ) -> None:
        """`step`: how many steps are done, according to the program's checkpoint. Afterwards
        `step_count` is the number of steps of the ranks that were not lost."""
        if isinstance(adapter_of(model), Sharded):
            raise InvalidArgument(
                "model: fully_shard found, expected DistributedDataParallel: to recover shards, "
                "write the loop yourself with lockstep.torch.groups.Job")
        self._loop = loop
        self._first_step = step
        self._steps_total = steps_total
        size = torch.distributed.get_world_size()
        # One data epoch for each step: its samples stand for the ranks. One more than there are,
        # as the end comes by `close` alone: within `take` the loop has not counted the step yet.
        sampler = Sampler(size, size, epochs=steps_total + 1, seed=seed, shuffle=False)
        sampler.data_epoch = step
        super().__init__(model=model, optimizer=optimizer, sampler=sampler, extra=extra,
                         options=ProgramSaves.like(options))
        self._parts: list[Compute] = []  # of the step in progress
        self._losses: list[torch.Tensor] = []  # of those that were computed, since the last loss
        places: Any = range(size)
        self._turns: Iterator[Any] = self.batches(
            torch.utils.data.DataLoader(places, batch_sampler=sampler))

    def add(self, compute: Compute) -> None:
        """Computes a part of the step that the next `take` applies. `compute` adds to the gradients
        and returns its share of the loss; it is called again if a rank is lost. The same number of
        times on all ranks. Errors: those of `take`."""
        self._check_is_left()
        self._parts.append(compute)
        self._compute(self._step)
        self._control.raises = True  # the loop goes on

    def take(
        self, compute: Compute, before_update: Optional[Callable[[], object]] = None
    ) -> torch.Tensor:
        """Takes one step of the loop. `compute` makes the gradients and returns the loss; it is
        called again if a rank is lost. Returns the mean loss of all ranks. Collective.

        Errors: those of `batches` and `step`; LockstepError (`steps_total` steps are done).
        """
        begin = self._step
        self._check_is_left()
        self._parts.append(compute)
        is_taken = False
        while self._step == begin:
            self._compute(begin)
            if self._step == begin:
                with self.attempt():
                    is_taken = self.step(self._own_loss(), before_update)
        self._control.raises = True  # the loop goes on
        own = self._own_loss()
        self._parts, self._losses = [], []
        # Else the others have taken it, and only the outcome was lost on the way.
        has_mean = is_taken and self._loss is not None
        return own.new_tensor(self._loss) if has_mean else own

    def should_save(self, step: int) -> bool:
        """At a stop: whether this rank writes what all hold. It is the lowest rank that is left,
        rank 0 if it is there, and may ask no other rank: others may have left, or go on with this
        one's successor. `step`: as the loop counts. A rank may be lost in the meeting in which this
        one has taken a step on its own, which its loop has not counted."""
        return self._step == step and self.session.should_save()

    def _check_is_left(self) -> None:
        if self._step >= self._steps_total:
            raise LockstepError(f"take: called after the last of {self._step} steps")

    def _compute(self, begin: int) -> None:
        """All parts of the step after `begin`, unless it is done once ranks have met."""
        self._control.raises = self._raises
        while True:
            if not self._is_open:
                next(self._turns)
                if self._step > begin:
                    return
                self._losses = []
            with self.attempt():
                for number, part in enumerate(self._parts[len(self._losses):], len(self._losses)):
                    self._seed(number)
                    self._losses.append(part())
                return

    def _own_loss(self) -> torch.Tensor:
        return torch.stack(self._losses).sum()

    def _take_over(self) -> None:
        """Only a rank without a state takes one over: where the loop of another is, it is itself
        the one who knows."""
        members, source = self.meeting.members, self.meeting.state_source
        if source is None:
            super()._take_over()
            if self._step != self._first_step:
                raise Mismatch(
                    f"step: {self._first_step} found, expected {self._step}, the step at which "
                    "rank 0 begins: load the same checkpoint on all ranks", Status.MISMATCH)
            return
        step = members[source].step
        if self._has_state and self._step < step:
            self._roll_forward(step)
        self._voted = None
        if all(one.has_state and one.step == step for one in members):
            return
        state = broadcast_state(self.session, self._state() if self.rank == source else None,
                                source, self._options.long_seconds())
        if self._has_state:
            self.sampler.load_state_dict(state["sampler"])
        else:
            self._load(state, is_of_file=False)
            self._loop.load_state_dict(state["loop"])

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "loop": self._loop.state_dict()}

    def _progress(self) -> Progress:
        return dataclasses.replace(
            super()._progress(), steps_total=self._steps_total, data_epoch=None)

    def _report(self) -> None:
        """What a step's samples are, the loop alone knows."""
        self.session.report(dataclasses.replace(self._progress(), phase=Phase.TRAINING))
