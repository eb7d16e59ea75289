"""How this process ends, for handlers that run at its exit."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import io
import os
import sys
import threading
from typing import Any, Callable, NoReturn, Optional, Tuple

# What this process has been asked to end with last, as no handler at exit is told.
_asked: object = None
_is_watched = False

# What this process is to end with, whatever it was asked for, and why.
_wanted: Optional[Tuple[int, str]] = None


def call_at_exit(handler: Callable[[], None]) -> Callable[[], None]:
    """Calls `handler` when this process exits, but not where a fork of it does. From now on `code`
    knows what sys.exit is called with. Returns what takes the handler back."""
    global _is_watched
    if not _is_watched:
        setattr(sys, "exit", _noting(sys.exit))
    _is_watched = True
    owner = os.getpid()

    def call() -> None:
        if os.getpid() == owner:
            handler()

    atexit.register(call)
    return functools.partial(atexit.unregister, call)


def _noting(plain: Callable[[Any], NoReturn]) -> Callable[..., NoReturn]:
    @functools.wraps(plain)
    def leave(status: object = None, /) -> NoReturn:
        note(status)
        plain(status)

    return leave


def note(status: object) -> None:
    """This process ends with `status`, which is as that of sys.exit; 0 where it goes on."""
    global _asked
    if threading.current_thread() is threading.main_thread():  # others end alone
        _asked = status


def code() -> int:
    """What this process ends with, for handlers at exit: as far as it does by an exception that
    nobody caught, by sys.exit or by `run`; 0 where SystemExit itself was raised."""
    if getattr(sys, "last_type", None) is not None:
        return 1
    if _asked is None or isinstance(_asked, int):
        return int(_asked or 0)
    return 1  # it is a text, which Python prints


def end_at_last(status: int, sentence: str = "") -> None:
    """Ends this process with `status` once its other handlers at exit have run, and says
    `sentence`, for a handler that runs at its exit. What is asked for first stays."""
    global _wanted
    _wanted = _wanted or (status, sentence)


# Handlers run in the reverse of their order, so that this one comes after all of those that were
# registered since this module was imported. Nothing else changes the code there.
@atexit.register
def _end() -> None:
    if _wanted is not None:
        status, sentence = _wanted
        _flush_all()
        if sentence:  # the pod's reason repeats the last line
            print(f"lockstep: {sentence}", file=sys.stderr, flush=True)
        os._exit(status)


def _flush_all() -> None:
    """What the program has written to its open files, as the interpreter's own end does."""
    for one in gc.get_objects():
        if isinstance(one, io.IOBase):
            with contextlib.suppress(Exception):
                one.flush()
