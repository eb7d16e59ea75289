"""The world of this process, between `init` and `shutdown`."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any, Callable, Optional

from lockstep import exits
from lockstep.errors import InvalidArgument, Mismatch, Status, code_of, watch_end
from lockstep.horovod.world import World

# Horovod's own word for how long a call may wait for ranks that do not come; 0 or absent: as here.
SECONDS_VARIABLE = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"
# Choice: ranks may evaluate or write a checkpoint while others wait.
_SECONDS = 600.0

_world: Optional[World[Any]] = None
_owner = 0  # the process that has called `init`; a fork has a copy
_has_finished = False  # all ranks have said so: nobody meets any more
_exit_code: Optional[int] = None  # what a loss has asked for


def current() -> World[Any]:
    """That of this process. Errors: InvalidArgument (before `init`, after `shutdown`)."""
    if _world is None:
        raise InvalidArgument("not initialized: call hvd.init() first", Status.NOT_MET)
    return _world


def current_with(arrays: type[Any]) -> World[Any]:
    """The same, where its arrays are handled by that class. Errors also: InvalidArgument (by
    another one)."""
    here = current()
    if not isinstance(here.arrays, arrays):
        raise InvalidArgument(
            "initialized by a different module of lockstep.horovod: a process can use only one of "
            "these modules")
    return here


def init(open_world: Callable[[float], World[Any]], comm: Any, process_sets: Any) -> None:
    """Makes a world with `open_world`, for calls of so many seconds, and waits for all ranks.
    Again: does nothing.

    Errors: NoJob, InvalidArgument (after `shutdown`), LockstepError (another session is open); the
    process ends with 75 where ranks do not come.
    """
    global _world, _owner
    for name, value in (("comm", comm), ("process_sets", process_sets)):
        if value is not None:
            raise InvalidArgument(
                f"{name}: {value!r} found, expected None: the only process set is that of all "
                "ranks")
    if _world is not None:
        return
    if _has_finished:
        raise InvalidArgument("init: called after shutdown, which ends the work of all ranks; "
                              "call init only once in each process")
    made = open_world(_call_seconds())
    try:
        made.meet(has_state=False)
    except BaseException:
        made.leave(ends_well=False)
        raise
    _world, _owner = made, os.getpid()
    watch_end()


def shutdown() -> None:
    """Waits until all ranks call it, then leaves the job. During an exception it leaves at once. It
    also runs at the end of the process, which ends with 1 after an error here. It does nothing
    before `init`, or when called again.

    Errors: Mismatch (other ranks made another call).
    """
    _shutdown(sys.exc_info()[0] is None)


def is_initialized() -> bool:
    """Whether `init` was called, and `shutdown` was not."""
    return _world is not None


def rank() -> int:
    """The rank of this process, from 0. A loss does not change it."""
    return current().rank


def size() -> int:
    """The number of ranks of the job. A loss does not change it."""
    return current().size


def local_rank() -> int:
    """The number of this process in its pod."""
    return _place("HOROVOD_LOCAL_RANK")


def local_size() -> int:
    """The number of ranks in this process's pod."""
    return _place("HOROVOD_LOCAL_SIZE")


def cross_rank() -> int:
    """The number of this process's pod."""
    return _place("HOROVOD_CROSS_RANK")


def cross_size() -> int:
    """The number of pods of the job that have ranks."""
    return _place("HOROVOD_CROSS_SIZE")


def _place(variable: str) -> int:
    current()
    return _number_of(variable, os.environ.get(variable, ""))


def _call_seconds() -> float:
    return float(_number_of(SECONDS_VARIABLE, os.environ.get(SECONDS_VARIABLE, "0"))) or _SECONDS


def _number_of(variable: str, text: str) -> int:
    if not text.isdecimal():
        raise InvalidArgument(f"{variable}: {text!r} found, expected a whole number from 0")
    return int(text)


def _shutdown(ends_well: bool) -> None:
    global _world, _has_finished, _exit_code
    if _world is not None:
        left, _world = _world, None
        _has_finished = ends_well
        _exit_code = left.exit_code
        left.leave(ends_well)


@atexit.register
def _at_exit() -> None:
    if _owner != os.getpid():
        return
    # The interpreter has printed an exception that nobody caught.
    has_failed = hasattr(sys, "last_type")
    try:
        _shutdown(not has_failed)
    except Mismatch as problem:
        exits.end_at_last(code_of(problem), str(problem))
    if has_failed and _exit_code is not None:
        exits.end_at_last(_exit_code)  # the exception may be one that another library has made
