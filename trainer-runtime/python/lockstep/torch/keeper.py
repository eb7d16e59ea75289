"""Who of a job's ranks saves what all of them hold, and when."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, NamedTuple, NoReturn, Optional

from lockstep.errors import LockstepError, MeetAgain, NotSaved, Status, Stopped, StoppedUnsaved
from lockstep.last_words import leave_unsaved
from lockstep.library import Leave
from lockstep.session import Progress
from lockstep.torch.checkpoint import CheckpointStore
from lockstep.torch.checkpoint_files import Manifest, Writer
from lockstep.torch.not_written import NotWritten
from lockstep.torch.session import Session
from lockstep.torch.state import FlatState, broadcast_state


class Snapshot(NamedTuple):
    """What a rank holds."""

    state: FlatState
    manifest: Manifest


class Keeper:
    """Saves what a job holds, where it has a folder for that: the chief of the newest meeting does,
    at the end and at a stop as well; where all are asked to stop and a rank is lost, the lowest one
    that is left with a state. Thread: one."""

    def __init__(
        self,
        store: Optional[CheckpointStore],
        session: Session,
        snapshot: Callable[[], Snapshot],
        progress: Callable[[], Progress],
    ) -> None:
        self.store = store
        self._session = session
        self._snapshot = snapshot
        self._progress = progress
        self._kept_step = 0  # the newest that was to be saved, or was restored
        self._has_claimed = True  # as far as it is the writer

    @property
    def is_behind(self) -> bool:
        """Whether a step was taken since the newest one that was to be saved."""
        return self._progress().step > self._kept_step

    def claim(self) -> None:
        """The chief of a meeting is the writer; whoever comes from an earlier one is refused. Where
        a rank holds what was trained, a folder that cannot be written to ends nothing: each save
        tries again. One that was there and is gone is not made again: what is mounted there may be
        missing. Errors: those of `CheckpointStore.make` and `claim`."""
        self._has_claimed = True
        if self.store is None or self._session.rank != 0:
            return
        is_begin = self._session.meeting.state_source is None
        if is_begin:
            self.store.make()
        try:
            self.store.claim(self._writer())
        except NotWritten as problem:
            if is_begin:
                raise
            self._has_claimed = False
            print(f"lockstep: no checkpoint can be written for now: {problem}", file=sys.stderr,
                  flush=True)

    def restore(self, fingerprint: dict[str, str]) -> Optional[dict[str, Any]]:
        """The newest checkpoint's state, on the chief. Errors: those of `load_newest`."""
        if self.store is None or self._session.rank != 0:
            return None
        state = self.store.load_newest(fingerprint)
        if state is not None:
            self._kept_step = state["step"]
        return state

    def save(self) -> Optional[Exception]:
        """Begins to, on the chief; else returns what is in the way, which is told."""
        self._kept_step = self._progress().step
        return self._begin_to_write() if self._session.rank == 0 else None

    def save_at_end(self, is_early: bool, timeout: float) -> None:
        """Returns once it is written. `is_early`: as of a loop that was left before its end.
        Collective. Errors: NotSaved, on all ranks; MeetAgain."""
        progress = self._progress()
        what = (f"the program left the loop after {progress.step} of {progress.steps_total} steps"
                if is_early else f"training ended after {progress.step} steps")
        has_to_save = self.store is not None and self.is_behind
        problem = self._save_and_wait()
        words = self._hear_of_chief(problem, timeout)
        if words is not None:
            reason = f"{what}, but they are not saved: {words}"
            if problem is not None:
                self._leave_unsaved("permanent", reason, problem)
            raise NotSaved(reason, Status.SYSTEM)
        if has_to_save and is_early and self._session.rank == 0:
            print(f"lockstep: {what}, and they are saved", file=sys.stderr, flush=True)

    def stop(self, leave: Leave, timeout: float) -> NoReturn:
        """Ends this rank, which was asked to stop, after a checkpoint. Collective where all leave
        together. Errors: Stopped, StoppedUnsaved."""
        problem = self._save_and_wait()  # one that leaves alone does: others may be asked next
        if leave == Leave.TOGETHER:
            try:
                words = self._hear_of_chief(problem, timeout)
            except MeetAgain:
                self.stop_without(Stopped(self._asked(), Status.STOPPED))
            if words is not None and problem is None:
                raise StoppedUnsaved(
                    f"{self._asked()}, but rank 0 could not save them: {words}", Status.STOPPED)
        self._end_stop(problem)

    def stop_without(self, stop: Stopped) -> NoReturn:
        """Ends this rank, which was asked to stop while a rank is lost, and nobody waits for its
        successor: the lowest rank that is left with a state writes it, in the name of the chief of
        their meeting, so that the chief of a later one is not disturbed.

        Errors: Stopped, StoppedUnsaved.
        """
        self._kept_step = self._progress().step
        if self.store is None:
            raise Stopped(self._asked(), Status.STOPPED) from stop
        if not self._session.should_save():
            raise Stopped(f"{self._asked()}, and a lower rank saves them", Status.STOPPED) from stop
        problem: Optional[Exception] = None
        try:
            # The chief may have come to it before it left.
            if not self.store.has_saved(self._progress().step, self._writer()):
                self._has_claimed = False
                problem = self._begin_to_write() or self.store.flush()
        except (LockstepError, OSError) as error:
            problem = error
        self._end_stop(problem)

    def _asked(self) -> str:
        return f"asked to stop after {self._progress().step} steps"

    def _end_stop(self, problem: Optional[Exception]) -> NoReturn:
        if problem is None:
            raise Stopped(self._asked(), Status.STOPPED)
        reason = f"{self._asked()}, but they are not saved: {problem}"
        self._leave_unsaved("preempted", reason, problem)
        raise StoppedUnsaved(reason, Status.STOPPED)

    def _hear_of_chief(self, problem: Optional[Exception], timeout: float) -> Optional[str]:
        """What was in the way of the chief's save. Nobody leaves before all know it, so that all
        others are there where the chief is lost while it writes. Errors: MeetAgain."""
        words: Optional[str] = broadcast_state(
            self._session, None if problem is None else str(problem), 0, timeout)
        with contextlib.suppress(MeetAgain):  # one that has left knows it, too
            self._session.barrier(timeout)
        return words

    def _save_and_wait(self) -> Optional[Exception]:
        problem = self.save()
        return problem if problem is not None or self.store is None else self.store.flush()

    def _begin_to_write(self) -> Optional[Exception]:
        if self.store is None:
            return None
        if not self._has_claimed:
            try:
                self.store.claim(self._writer())
            except NotWritten as problem:
                self.store.note_failed(self._progress().step, problem)
                return problem
            self._has_claimed = True
        self.store.save_async(*self._snapshot())
        return None

    def _writer(self) -> Writer:
        meeting = self._session.meeting
        return Writer.of_environment(meeting.epoch, meeting.members[0].incarnation)

    def _leave_unsaved(self, outcome: str, reason: str, problem: Exception) -> None:
        assert self.store is not None, "there is nothing to save without"
        leave_unsaved(outcome, reason, self._progress(), self.store.counts, problem)
