"""Reports of a program whose processes work together by another library."""

from __future__ import annotations

import atexit
import contextlib
import ctypes

from lockstep import library
from lockstep.errors import LockstepError, error_of
from lockstep.session import Progress, figures_of


class Reporter:
    """Shows how far this process is, in the job's status, and does no more: it listens nowhere, and
    nobody waits for it. So it goes with programs that use the address of TF_CONFIG themselves.

    It is the process's session (there is one at a time), until it is closed or the process ends.
    Thread: one at a time.
    """

    def __init__(self) -> None:
        """Opens it from the environment. Errors: NoJob, LockstepError (ALREADY_OPEN)."""
        self._library = library.load()
        self._handle = ctypes.c_void_p()
        options = library.Options(struct_size=ctypes.sizeof(library.Options), report_only=1)
        self._check(self._library.lockstep_open(
            ctypes.byref(options), ctypes.byref(self._handle)))
        # What was reported last may not be told yet when the program ends.
        atexit.register(self._close_at_exit)

    def report(self, progress: Progress) -> None:
        """As `Session.report`; does not wait. Errors: Forked, InvalidArgument,
        LockstepError (CLOSED)."""
        figures = figures_of(progress)
        self._check(self._library.lockstep_report(self._handle, ctypes.byref(figures)))

    def close(self) -> None:
        """The process goes on without reports. Once; again does nothing. Errors: Forked."""
        if self._handle.value is None:
            return
        self._check(self._library.lockstep_close(self._handle))
        self._handle = ctypes.c_void_p()
        atexit.unregister(self._close_at_exit)

    def _close_at_exit(self) -> None:
        with contextlib.suppress(LockstepError):  # of a process that was forked
            self.close()

    def _check(self, status: int) -> None:
        if status != 0:
            sentence: bytes = self._library.lockstep_last_error()
            raise error_of(status, sentence.decode(errors="replace"))
