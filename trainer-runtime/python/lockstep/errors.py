"""The exceptions that failed calls of liblockstep raise."""

from __future__ import annotations

import enum
import re
import sys
from typing import Callable, NoReturn, Optional, Tuple

from lockstep import exits


class Status(enum.IntEnum):
    """How a call of the library ended: lockstep_status of lockstep.h."""

    OK = 0
    INVALID_ARGUMENT = 1
    NO_JOB = 2
    ALREADY_OPEN = 3
    CLOSED = 4
    FORKED = 5
    BUSY = 6
    NOT_MET = 7
    LOST_PEER = 8
    TIMEOUT = 9
    MISMATCH = 10
    ABORTED = 11
    SUPERSEDED = 12
    FINISHED = 13
    SYSTEM = 14
    INTERNAL = 15
    STOPPED = 16
    TAKEN_OVER = 17
    DAMAGED = 18


class LockstepError(Exception):
    """A call failed. The text comes from the library; `status` has the kind of the error."""

    def __init__(self, sentence: str, status: Status = Status.INVALID_ARGUMENT) -> None:
        super().__init__(sentence)
        self.status = status


class InvalidArgument(LockstepError, ValueError):
    """An argument of this call is wrong. The call does not affect the other ranks."""


class NoJob(LockstepError):
    """The process does not belong to a job, or its role has no ranks."""


class MeetAgain(LockstepError):
    """A rank was lost, came too late, or aborted. Discard the unfinished step and call `meet`
    again. A program that gives up instead ends with `exit_code`, which Lockstep retries."""

    exit_code = 75


class Mismatch(LockstepError):
    """Ranks made different calls, or opened their sessions with different plans."""


class Forked(LockstepError):
    """The session belongs to the parent process; a forked process cannot use it."""


class Ended(LockstepError):
    """This process has no more work. It should end with `exit_code`."""

    exit_code = 0


class Finished(Ended):
    """The other ranks have finished all work."""


class Stopped(Ended):
    """This process was asked to stop."""

    exit_code = 42


class StoppedUnsaved(Stopped):
    """This process was asked to stop, and could not save its state."""

    exit_code = 143  # as one that SIGTERM has ended: it is tried again


class NotSaved(Ended):
    """All work is done, but the result could not be saved."""

    exit_code = 74


class Diverged(Ended):
    """Loss, gradients or weights are no longer finite."""

    exit_code = 79


class Inexact(Ended):
    """Training has ended, but samples were lost or used twice."""

    exit_code = 80


class TakenOver(Ended):
    """Another job has taken over the checkpoint directory of this job."""

    exit_code = 64


class Superseded(Ended):
    """A newer process has taken over the rank of this process."""

    exit_code = 76


# Sentences that tell C and Python apart themselves say close(), and stay.
_OF_C = re.compile(r"\blockstep_(meet|finish|report|abort|wait)\b")

_CLASSES: dict[Status, type[LockstepError]] = {
    Status.INVALID_ARGUMENT: InvalidArgument,
    Status.NO_JOB: NoJob,
    Status.FORKED: Forked,
    Status.LOST_PEER: MeetAgain,
    Status.TIMEOUT: MeetAgain,
    Status.ABORTED: MeetAgain,
    Status.MISMATCH: Mismatch,
    Status.SUPERSEDED: Superseded,
    Status.FINISHED: Finished,
    Status.STOPPED: Stopped,
}


def error_of(status: int, sentence: str) -> LockstepError:
    """The exception for a status that is not OK; one of a later library is an INTERNAL. Functions
    that the sentence names are called as Python calls them."""
    sentence = _OF_C.sub(r"\1", sentence)
    known = Status(status) if status in set(Status) else Status.INTERNAL
    return _CLASSES.get(known, LockstepError)(sentence, known)


# What has ended this process's work, whatever the program makes of it: exit code, name, words.
# Not the exception, whose frames would keep what they hold until the interpreter is taken down:
# workers of a data loader, which then leave their files behind.
_end: Optional[Tuple[int, str, str]] = None

# Called where a MeetAgain ends this process that the program was to catch.
_at_loss: Optional[Callable[[], object]] = None


def note_end(error: LockstepError) -> None:
    """Notes that `error` ends this process's work, even if the program catches the error: `run` and
    `watch_end` end the process with its code. The first error with a code other than 0 counts."""
    global _end
    if _end is None and code_of(error) != 0:
        _end = (code_of(error), type(error).__name__, str(error))


def code_of(error: LockstepError) -> int:
    """That of an exception that nobody catches, where it asks for none."""
    return int(getattr(error, "exit_code", 1))


def run(work: Callable[[], object]) -> NoReturn:
    """Runs `work`, then ends the process. The exit code is 0, or that of an `Ended` or `MeetAgain`.
    If `work` ends with 0 although a training loop has raised an error, the process ends with the
    exit code of that error. Other exceptions are raised unchanged."""
    try:
        work()
    except (Ended, MeetAgain) as end:
        _tell_of_loss(type(end))
        print(f"lockstep: {end}", file=sys.stderr, flush=True)
        sys.exit(end.exit_code)
    except SystemExit as end:
        exits.note(end.code)
        if end.code:
            raise
    if _end is None:
        sys.exit(0)
    code, words = _caught(_end)
    print(f"lockstep: {words}", file=sys.stderr, flush=True)
    sys.exit(code)


def watch_end(at_loss: Optional[Callable[[], object]] = None) -> None:
    """From now on a process that does not end by `run` does as if it did: what `note_end` has noted
    changes an end with 0, and an `Ended` or `MeetAgain` that nobody has caught ends it with the
    code that it asks for, where Python's own would be 1. `at_loss` is called where nobody has
    caught a MeetAgain that `note_end` does not know."""
    global _at_loss
    _at_loss = at_loss
    exits.call_at_exit(_at_exit)


def _tell_of_loss(kind: object) -> None:
    """Of an exception that nobody has caught."""
    if _at_loss is not None and _end is None and kind is MeetAgain:
        _at_loss()


def _at_exit() -> None:
    kind = getattr(sys, "last_type", None)
    _tell_of_loss(kind)
    if kind is not None and issubclass(kind, (Ended, MeetAgain)):
        exits.end_at_last(kind.exit_code, str(getattr(sys, "last_value", kind.__name__)))
    elif _end is not None and exits.code() == 0:
        exits.end_at_last(*_caught(_end))


def _caught(end: Tuple[int, str, str]) -> Tuple[int, str]:
    """The exit code, and what is said of it."""
    code, name, words = end
    return code, (f"the program caught {name} and ended with exit code 0, so this process ends "
                  f"with {code} instead: {words}")
