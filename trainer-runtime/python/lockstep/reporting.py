"""Reports progress for programs whose processes communicate through another library."""

from __future__ import annotations

import atexit
import contextlib
import ctypes

from lockstep import library
from lockstep.errors import LockstepError, error_of
from lockstep.session import Progress, figures_of


class Reporter:
    """Shows the progress of this process in the job's status. It opens no port, and no other rank
    waits for it, so programs may use the address from TF_CONFIG themselves.

    It is the only session of the process until it is closed or the process ends.
    Thread: one at a time.
    """

    def __init__(self) -> None:
        """Reads the environment of the job. Errors: NoJob, LockstepError (ALREADY_OPEN)."""
        self._library = library.load()
        self._handle = ctypes.c_void_p()
        options = library.Options(struct_size=ctypes.sizeof(library.Options), report_only=1)
        self._check(self._library.lockstep_open(
            ctypes.byref(options), ctypes.byref(self._handle)))
        # What was reported last may not be told yet when the program ends.
        atexit.register(self._close_at_exit)

    def report(self, progress: Progress) -> None:
        """Like `Session.report`, but does not wait. Errors: Forked, InvalidArgument,
        LockstepError (CLOSED)."""
        figures = figures_of(progress)
        self._check(self._library.lockstep_report(self._handle, ctypes.byref(figures)))

    def close(self) -> None:
        """Ends the reports; the process continues. A second call does nothing. Errors: Forked."""
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
