"""Horovod's `elastic`: programs that continue after the loss of a rank, with the same number of
ranks as before. Lockstep replaces the lost rank. The other ranks keep their processes, go back to
their last commit, join a rendezvous with the replacement, and give it this state."""

from __future__ import annotations

import copy
import functools
import sys
from typing import Any, Callable, Iterable

from lockstep.errors import MeetAgain
from lockstep.horovod.objects import broadcast_object
from lockstep.horovod.process import current
from lockstep.horovod.world import World

# Losses without a commit between them. Choice: as the runtime's own limit of fruitless meetings.
_FRUITLESS_MAX = 20


class State:
    """The state of a program that a replacement needs. Programs use ObjectState, or the states for
    torch and TensorFlow. A class of your own has to define `save`, `restore` and `sync`."""

    def __init__(self) -> None:
        self._reset_callbacks: list[Callable[[], object]] = []
        self._steps = 0  # of the world, as of the last commit
        self._commits = 0
        self._is_whole = False  # the state is one that others may take

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], object]]) -> None:
        """After each loss, calls `callbacks` in the processes that were not lost."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Called after a loss, before the state is synchronized."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Saves the current state; after a loss, all ranks go back to it. All ranks have to commit
        after the same steps. A commit without a step of the optimizer before it counts as a
        step."""
        here = current()
        if here.steps == self._steps:
            here.report_step()
        self.save()
        self._steps = here.steps
        self._commits += 1
        self._is_whole = True

    def check_host_updates(self) -> None:
        """Does nothing: the number of ranks does not change, and the next call reports a loss."""

    def save(self) -> None:
        """Keeps a copy of the state."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to the copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Takes over the state of rank `source` of the newest rendezvous. Collective."""
        raise NotImplementedError

    def reset(self) -> None:
        """Called after a loss, for derived classes."""

    @property
    def source(self) -> int:
        """The rank whose state all ranks take: the lowest of those with the newest commit."""
        return current().state_source


class ObjectState(State):
    """A state of named objects, which are its attributes. They must support copy and pickle."""

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


def run(work: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for `work(state, ...)`: after each loss, it calls `work` again with the state of
    the last commit. Errors: those of `work`. After too many losses without a commit in between, the
    process ends with 75."""

    @functools.wraps(work)
    def run_again(state: State, *arguments: Any, **named: Any) -> Any:
        here = current()
        here.is_elastic = True
        try:
            return _run(here, state, lambda: work(state, *arguments, **named))
        finally:
            here.is_elastic = False

    return run_again


def _run(here: World[Any], state: State, work: Callable[[], Any]) -> Any:
    commits, fruitless = state._commits, 0
    while True:
        try:
            state.sync()
            state.save()
            state._steps, state._is_whole = here.steps, True
            return work()
        except MeetAgain as error:
            lost = error
        except Exception:
            if here.loss is None:
                raise
            lost = here.loss  # it came through a library that makes an exception of its own of it
        fruitless = 0 if state._commits > commits else fruitless + 1
        commits = state._commits
        if fruitless > _FRUITLESS_MAX:
            print(f"lockstep: ranks were lost {fruitless} times without a commit in between: "
                  f"{lost}",
                  file=sys.stderr)
            sys.exit(lost.exit_code)
        print(f"lockstep: joining a new rendezvous after step {state._steps}: {lost}", flush=True)
        state.restore()
        here.steps = state._steps
        here.meet(state._is_whole)
        state.on_reset()
