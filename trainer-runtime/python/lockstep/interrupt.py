"""Lets Ctrl-C end a call that blocks in the library.

Python runs the handler of a signal between two steps of the main thread's own code; while that is
in C it runs nothing. The interpreter does write the signal's number to a pipe at once
(signal.set_wakeup_fd), so a thread that reads there can end the call; then the handler runs, and
KeyboardInterrupt is raised as everywhere. A handler of the program's own may have other plans than
to end: then no call is ended, and it runs after the call.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import weakref
from typing import Callable, Optional

from lockstep.errors import LockstepError

# The signal may come just before the library is entered, where there is no call to end yet: it is
# asked again until the call is over. Choice: far below what a person notices.
_ASK_AGAIN_SECONDS = 0.02

# What ends the thread: no signal has this number.
_END = b"\0"

# For the thread to end. Choice: one that cannot, as somebody else's pipe is full, is left behind.
_END_SECONDS = 2.0


class InterruptWatcher:
    """Calls `end_call` where SIGINT arrives while the main thread is in a call of the library.

    Does nothing where it is made in another thread, as signals are the main one's. Bytes are passed
    on to whoever had the pipe before; who takes it later (asyncio does) takes Ctrl-C with it.
    """

    def __init__(self, end_call: Callable[[], None]) -> None:
        # The call that the main thread is in; 0: none. Set and reset by the caller itself: in a
        # function of ours the handler of a signal could run, and raise, before its first line.
        self.call = 0
        self._end_call = end_call
        self._pid = os.getpid()
        self._newest_call = 0
        self._thread: Optional[threading.Thread] = None
        self._previous = -1
        self._main = threading.main_thread().ident
        if threading.get_ident() == self._main:
            self._install()

    def number_call(self) -> int:
        """The number of the calling thread's next call; 0 in threads that need no help."""
        if threading.get_ident() != self._main:
            return 0
        self._newest_call += 1
        return self._newest_call

    def close(self) -> None:
        """Gives the pipe back. In a fork, which has not the thread, there is nothing to do."""
        if self._thread is None or os.getpid() != self._pid:
            return
        if threading.get_ident() == self._main:
            taken_by = signal.set_wakeup_fd(-1)
            is_ours = taken_by in (-1, self._write_end)
            with contextlib.suppress(OSError, ValueError):  # whoever had it has closed it
                signal.set_wakeup_fd(self._previous if is_ours else taken_by)
            # A byte and not the end of the pipe, whose other end forks of this process hold, too.
            with contextlib.suppress(BlockingIOError):  # nobody has read for 64 KiB
                os.write(self._write_end, _END)
            self._thread.join(_END_SECONDS)
            if not self._thread.is_alive():
                os.close(self._write_end)
                os.close(self._read_end)
        self._thread = None

    def _install(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._previous = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, name="lockstep-interrupt", daemon=True)
        self._thread.start()
        # A fork shares the pipe, and its signals are not ours.
        itself = weakref.ref(self)

        def let_go() -> None:
            watcher = itself()
            if watcher is not None and watcher._thread is not None:
                signal.set_wakeup_fd(-1)

        os.register_at_fork(after_in_child=let_go)

    def _watch(self) -> None:
        while True:
            signals = os.read(self._read_end, 4096)
            passed_on = signals.replace(_END, b"")
            if self._previous != -1 and passed_on:
                with contextlib.suppress(OSError):  # it is closed, or full
                    os.write(self._previous, passed_on)
            is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
            if signal.SIGINT in signals and is_default:
                self._end(self.call)
            if _END in signals:
                return

    def _end(self, call: int) -> None:
        try:
            while call != 0 and self.call == call:
                self._end_call()
                time.sleep(_ASK_AGAIN_SECONDS)
        except LockstepError:
            pass  # the session is closed
