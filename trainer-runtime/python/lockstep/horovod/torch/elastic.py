"""Programs that go on after the loss of a rank: Horovod's `elastic`, with as many ranks after a
loss as before. A lost rank is replaced; the others keep their process, go back to what they
committed last, meet the newcomer, and give it that."""

from __future__ import annotations

import copy
import functools
import random
import sys
from typing import Any, Callable, Iterable, Iterator, Optional, Sized

import torch

from lockstep.errors import InvalidArgument, MeetAgain
from lockstep.horovod.torch.functions import broadcast_object, broadcast_state
from lockstep.horovod.torch.world import World, rank, size, world

# Losses without a commit between them. Choice: as the runtime's own limit of fruitless meetings.
_FRUITLESS_MAX = 20


class State:
    """What a program holds that a newcomer lacks. Programs use ObjectState and TorchState; a class
    of their own has `save`, `restore` and `sync`."""

    def __init__(self) -> None:
        self._reset_callbacks: list[Callable[[], object]] = []
        self._steps = 0  # of the world, as of the last commit
        self._commits = 0
        self._is_whole = False  # the state is one that others may take

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], object]]) -> None:
        """They are called after each loss, in the processes that were there before it."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """What follows a loss, before the state is taken over."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """What is here now is what is gone back to after a loss. All ranks commit after the same
        steps. A commit without an optimizer's step before counts as a step."""
        here = world()
        if here.steps == self._steps:
            here.report_step()
        self.save()
        self._steps = here.steps
        self._commits += 1
        self._is_whole = True

    def check_host_updates(self) -> None:
        """Does nothing: the number of ranks stays, and a loss is heard in the next call."""

    def save(self) -> None:
        """Keeps a copy."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to the copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Takes over the state of rank `source` of the newest meeting. Collective."""
        raise NotImplementedError

    def reset(self) -> None:
        """Whatever a class of its own does after a loss."""

    @property
    def source(self) -> int:
        """The rank whose state all take: the lowest of those that committed the most."""
        return world().state_source


class ObjectState(State):
    """Objects by name, which are attributes of the state; they can be copied and pickled."""

    def __init__(self, **objects: Any) -> None:
        super().__init__()
        self._objects = dict(objects)
        self._saved: dict[str, Any] = {}
        for name, value in objects.items():
            setattr(self, name, value)
        ObjectState.save(self)

    def save(self) -> None:
        self._saved = {name: copy.deepcopy(getattr(self, name)) for name in self._objects}

    def restore(self) -> None:
        for name, value in self._saved.items():
            setattr(self, name, copy.deepcopy(value))

    def sync(self) -> None:
        own = {name: getattr(self, name) for name in self._objects}
        for name, value in broadcast_object(own, self.source, "elastic objects").items():
            setattr(self, name, value)


class TorchState(ObjectState):
    """A model, an optimizer, samplers of this module, and objects of any name."""

    def __init__(
        self,
        model: Optional[torch.nn.Module] = None,
        optimizer: Optional[torch.optim.Optimizer] = None,
        **objects: Any,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        parts = {"model": model, "optimizer": optimizer, **objects}
        kinds = (torch.nn.Module, torch.optim.Optimizer, ElasticSampler)
        self._parts = {name: one for name, one in parts.items() if isinstance(one, kinds)}
        for name, value in (("model", model), ("optimizer", optimizer)):
            if value is not None and name not in self._parts:
                raise InvalidArgument(
                    f"{name}: {type(value).__name__} found, expected one of torch's")
        for name, one in self._parts.items():
            setattr(self, name, one)
        super().__init__(**{name: one for name, one in objects.items() if name not in self._parts})
        self._saved_parts: dict[str, Any] = {}
        self.save()

    def save(self) -> None:
        self._saved_parts = {
            name: copy.deepcopy(one.state_dict()) for name, one in self._parts.items()}
        super().save()

    def restore(self) -> None:
        for name, one in self._parts.items():
            one.load_state_dict(copy.deepcopy(self._saved_parts[name]))
        super().restore()

    def sync(self) -> None:
        for name, one in self._parts.items():
            state = broadcast_state(f"elastic {name}", one.state_dict(), self.source)
            if rank() != self.source:
                one.load_state_dict(state)
        super().sync()


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Samples in an order of its own for each data epoch, of which each rank takes every size-th,
    from where `record_batch` has come. In a state it is handed over and gone back to as the
    rest."""

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        """`seed`: equal on all ranks."""
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0  # samples of this epoch, of all ranks together
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins that data epoch. Call it at the end of one, lest one is begun again."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Each rank has used `batch_size` samples. `batch_idx` is Horovod's; they are counted."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, int]:
        """Where it is."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Goes there."""
        self.epoch = state["epoch"]
        self.processed_num = state["processed_num"]
        self.reset()

    def reset(self) -> None:
        """What is left of the epoch, for the ranks that there are."""
        self.num_replicas = size()
        self.rank = rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)

    def __iter__(self) -> Iterator[int]:
        """All ranks give equally many: the first that are left come again at the end."""
        left = self.remaining_indices
        whole = (left * self.num_replicas)[: self.num_samples * self.num_replicas]
        return iter(whole[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples


def run(work: Callable[..., Any]) -> Callable[..., Any]:
    """Makes of `work(state, ...)` a function that begins it again after each loss, from the last
    commit, with the ranks that there are then. Errors: those of `work`; the process ends with 75
    where losses come without a commit between them."""

    @functools.wraps(work)
    def run_again(state: State, *arguments: Any, **named: Any) -> Any:
        here = world()
        here.is_elastic = True
        try:
            return _run(here, state, lambda: work(state, *arguments, **named))
        finally:
            here.is_elastic = False

    return run_again


def _run(here: World, state: State, work: Callable[[], Any]) -> Any:
    commits, fruitless = state._commits, 0
    while True:
        try:
            state.sync()
            state.save()
            state._steps, state._is_whole = here.steps, True
            return work()
        except MeetAgain as error:
            lost = error
        fruitless = 0 if state._commits > commits else fruitless + 1
        commits = state._commits
        if fruitless > _FRUITLESS_MAX:
            print(f"lockstep: {fruitless} losses without a commit: {lost}", file=sys.stderr)
            sys.exit(lost.exit_code)
        print(f"lockstep: meeting again after step {state._steps}: {lost}", flush=True)
        state.restore()
        here.steps = state._steps
        here.meet(state._is_whole)
        state.on_reset()
