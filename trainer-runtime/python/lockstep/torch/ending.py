"""What has ended a job on this rank, whatever the program makes of it."""

from __future__ import annotations

import contextlib
import sys
from typing import Callable, Iterator, Optional

from lockstep.errors import LockstepError, code_of
from lockstep.session import Progress
from lockstep.torch.gradients import LeftLoop
from lockstep.torch.session import Session


class Ending:
    """Thread: one."""

    def __init__(self, session: Session, progress: Callable[[], Progress]) -> None:
        self._session = session
        self._progress = progress
        self._error: Optional[LockstepError] = None
        self.is_over = False  # nothing is expected of this rank any more

    @property
    def has_failed(self) -> bool:
        """Whether an error has ended the job."""
        return self._error is not None

    @contextlib.contextmanager
    def by_errors(self) -> Iterator[None]:
        """An error of ours that is raised within is the end of this rank."""
        try:
            try:
                yield
            except LeftLoop as left:
                raise left.error(self._progress()) from None
        except LockstepError as error:
            self._note(error)
            raise

    @contextlib.contextmanager
    def by_half_an_update(self) -> Iterator[None]:
        """Whatever is raised within an update is: some weights have changed, and others not."""
        try:
            yield
        except LockstepError:
            raise  # the end already
        except BaseException as error:
            self._note(LockstepError(
                f"the update after step {self._progress().step} failed halfway with "
                f"{type(error).__name__}: {error}. Some weights may have changed, so this rank "
                "cannot continue. Repair the cause and start the job again"))
            raise

    def _note(self, error: LockstepError) -> None:
        self.is_over = True
        self._error = type(error)(str(error), error.status)  # without the frames of the first
        self._session.note_end(error)

    def raise_anew(self) -> None:
        """For a program that has caught what ended the job, and would go on without the batch."""
        if self._error is not None:
            raise type(self._error)(str(self._error), self._error.status)

    def end_process(self) -> None:
        """For one that begins another loop then: it would catch the error again, for ever."""
        if self._error is not None:
            print(f"lockstep: {self._error}", file=sys.stderr, flush=True)
            sys.exit(code_of(self._error))
