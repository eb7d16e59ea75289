"""Programs that go on after the loss of a rank: Horovod's `elastic`, with as many ranks after a
loss as before. A lost rank is replaced; the others keep their process, go back to what they
committed last, meet the newcomer, and give it that."""

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
    """What a program holds that a newcomer lacks. Programs use ObjectState and those of torch and
    TensorFlow; a class
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
        here = current()
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
        return current().state_source


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


def run(work: Callable[..., Any]) -> Callable[..., Any]:
    """Makes of `work(state, ...)` a function that begins it again after each loss, from the last
    commit, with the ranks that there are then. Errors: those of `work`; the process ends with 75
    where losses come without a commit between them."""

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
