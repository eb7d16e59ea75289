"""All ranks of the job, and their calls, for whatever holds arrays."""

from __future__ import annotations

import collections
import dataclasses
import math
import sys
from typing import (
    Any,
    Callable,
    Generic,
    NamedTuple,
    NoReturn,
    Optional,
    Protocol,
    Sequence,
    TypeVar,
)

from lockstep.errors import Ended, LockstepError, MeetAgain, Mismatch, Status
from lockstep.horovod.header import (
    HEADER_BYTES,
    Agreement,
    Call,
    Kind,
    ShutDown,
    agree,
    decode,
)
from lockstep.library import DataType, Op
from lockstep.session import CALL_SECONDS, Array, Pending, Progress, Session

Result = TypeVar("Result")


class Arrays(Protocol[Array]):
    """What a World needs of whatever holds arrays. Bytes are arrays [bytes] of uint8."""

    def of_bytes(self, raw: bytes) -> Array:
        """A copy of them."""

    def raw_bytes(self, array: Array) -> bytes:
        """A copy of its memory."""

    def zeros(self, count: int, data_type: DataType) -> Array:
        """Shapes: [count]."""

    def padded(self, own: Array, length: int) -> Array:
        """`own`, bytes, with zeros up to that length."""

    def total(self, array: Array) -> float:
        """The sum of floating-point numbers; 0 of all else."""

    def cut(self, blocks: Array, lengths: Sequence[int]) -> list[Array]:
        """Of each of the `blocks` [n, bytes] the first."""


class Begun(NamedTuple):
    """A reduction on its way, behind its header."""

    call: Call
    header: Pending[Any]
    data: Pending[Any]
    flat: Any

    def has_ended(self) -> bool:
        return self.header.has_ended() and self.data.has_ended()


class World(Generic[Array]):
    """The ranks of the newest meeting. All ranks make the same calls in the same order; headers
    make sure of it.

    Errors of all calls: Mismatch, after which nothing is possible but to leave: a process that
    catches it does not end with 0. MeetAgain where a rank is lost or does not come in time, in an
    elastic program, where `meet` makes it good; in others that ends the process with 75, so that
    the gang starts anew. Thread: one.
    """

    def __init__(self, session: Session[Array], arrays: Arrays[Array], seconds: float) -> None:
        """`seconds`: of each call."""
        self.arrays = arrays
        self._session = session
        self._seconds = seconds
        self._broken: Optional[LockstepError] = None
        self._joined: frozenset[int] = frozenset()
        self._counts: collections.Counter[str] = collections.Counter()
        self._has_warned = False  # of results that are not finite
        self.is_elastic = False
        self.steps = 0  # that were taken
        self._shown = 0  # the most that were reported since the newest meeting
        self.exit_code: Optional[int] = None  # what the process is to end with

    @property
    def rank(self) -> int:
        return self._session.rank

    @property
    def size(self) -> int:
        return self._session.size

    @property
    def epoch(self) -> int:
        """Of the newest meeting."""
        return self._session.meeting.epoch

    @property
    def state_source(self) -> int:
        """The rank whose state all take: the lowest of those ahead; 0 where nobody has one."""
        source = self._session.meeting.state_source
        return 0 if source is None else source

    @property
    def loss(self) -> Optional[MeetAgain]:
        """What was told of a lost rank since the newest meeting."""
        return self._broken if isinstance(self._broken, MeetAgain) else None

    def meet(self, has_state: bool) -> None:
        """Joins all ranks, again where one is lost meanwhile. `has_state`: whether this one could
        give the others a state, of `steps`. Ends the process where it has no more to do."""
        while True:
            try:
                meeting = self._session.meet(has_state, self.steps)
                break
            except Ended as end:
                self._exit(end, end.exit_code)
            except MeetAgain as lost:
                if lost.status == Status.TIMEOUT:
                    self._exit(lost, lost.exit_code)
        self._broken = None
        self._joined = frozenset()
        self._counts.clear()  # of those who were there before as of newcomers
        self.steps = meeting.members[self.state_source].step
        self._shown = 0

    def name(self, kind: str, name: Optional[str]) -> str:
        """That of a call which was given none: equal on all ranks."""
        if name is not None:
            return name
        self._counts[kind] += 1
        return f"{kind}.noname.{self._counts[kind]}"

    def report_step(self) -> None:
        """A step was taken. A process that is lost again without one has no successor."""
        self.steps += 1
        self.report(Progress(step=self.steps))

    def report(self, progress: Progress) -> None:
        """Shows figures that somebody else knows, as lockstep.keras.Report does, who may count from
        where an earlier run has ended: the steps that are shown grow."""
        self._shown = max(self._shown, progress.step)
        self._session.report(dataclasses.replace(progress, step=self._shown))

    def exchange(self, call: Call) -> Agreement:
        """Tells all ranks of a call, and waits for theirs."""
        return self._try(call, lambda: self._agree(self._begin_header(call).wait()))

    def begin_all_reduce(self, call: Call, flat: Array) -> Begun:
        """Begins to reduce `flat`, which is the library's until `wait` has returned. What ranks
        that have joined give is zeros."""
        assert call.op is not None
        op = call.op
        return self._try(call, lambda: Begun(
            call, self._begin_header(call), self._session.begin_all_reduce(
                flat, op, self._seconds), flat))

    def wait(self, begun: Begun) -> None:
        """Returns once it is reduced."""

        def wait() -> None:
            self._agree(begun.header.wait())
            begun.data.wait()

        self._try(begun.call, wait)
        self._warn_of(begun)

    def gather(self, call: Call, own: Array) -> list[Array]:
        """`own` of `call.length` bytes of each rank; their lengths may differ."""
        lengths = [header.length for header in self.exchange(call).headers]
        padded = self.arrays.padded(own, max(1, *lengths))
        each = self._try(call, lambda: self._session.all_gather(padded, self._seconds))
        return self.arrays.cut(each, lengths)

    def broadcast(self, call: Call, own: Callable[[int], Array]) -> Array:
        """Of rank `call.root` to all others: `own` gives this rank's bytes, for the root's
        length."""
        length = self.exchange(call).headers[call.root].length
        memory = own(length)
        if length > 0:
            self._try(call, lambda: self._session.broadcast(memory, call.root, self._seconds))
        return memory

    def carry_out(self, call: Call, work: Callable[[Session[Array], float], Result]) -> Result:
        """A call that consists of several ones of the session, with seconds for each."""
        self.exchange(call)
        return self._try(call, lambda: work(self._session, self._seconds))

    def join(self) -> int:
        """Takes part in the others' reductions with zeros, until all have joined; the rank that
        came last, the highest of several."""
        call = Call(Kind.JOIN)
        while True:
            before = self._joined
            agreement = self.exchange(call)
            other = agreement.call
            if other is None:
                self._joined = frozenset()
                return max(agreement.joined - before or agreement.joined)
            assert other.op is not None and other.data_type is not None
            op = other.op
            zeros = self.arrays.zeros(other.elements, other.data_type)
            self._try(call, lambda: self._session.all_reduce(zeros, op, self._seconds))

    def leave(self, ends_well: bool) -> None:
        """Closes the session: once all ranks do, where this one ends well. Errors: Mismatch (others
        call instead; the session is closed)."""
        try:
            if ends_well and self._broken is None:
                self._seconds = CALL_SECONDS  # those that still work may come later, or never
                self._agree(self._begin_header(Call(Kind.SHUTDOWN)).wait())
                self._session.finish(CALL_SECONDS)
        except ShutDown as alone:
            error = Mismatch(
                f"rank {self.rank} has shut down while {alone.call}: all ranks must shut down "
                "after the same call", Status.MISMATCH)
            self._session.note_end(error)
            raise error from None
        except (MeetAgain, Mismatch) as lost:
            print(f"lockstep: only this rank has shut down: {lost}", file=sys.stderr, flush=True)
        finally:
            self._session.close()

    def _warn_of(self, begun: Begun) -> None:
        """Once. The program has its reasons, or not: to scale a loss is to try whether it is."""
        if not self._has_warned and not math.isfinite(self.arrays.total(begun.flat)):
            self._has_warned = True
            if self.rank == 0:  # all have the same
                print(f"lockstep: {begun.call}: the result is not finite, after step {self.steps}; "
                      "training continues with it unless the program skips such steps, as loss "
                      "scaling does", file=sys.stderr, flush=True)

    def _begin_header(self, call: Call) -> Pending[Array]:
        before, after = self.rank * HEADER_BYTES, (self.size - 1 - self.rank) * HEADER_BYTES
        block = self.arrays.of_bytes(bytes(before) + call.encode() + bytes(after))
        return self._session.begin_all_reduce(block, Op.SUM, self._seconds)

    def _agree(self, block: Array) -> Agreement:
        raw = self.arrays.raw_bytes(block)
        agreement = agree([decode(raw[begin : begin + HEADER_BYTES])
                           for begin in range(0, len(raw), HEADER_BYTES)])
        if agreement.call is not None:
            self._joined = agreement.joined
        return agreement

    def _try(self, call: Call, work: Callable[[], Result]) -> Result:
        if self._broken is not None:
            kind, status = type(self._broken), self._broken.status
            raise kind(f"{call}: not possible after an earlier error: {self._broken}", status)
        try:
            return work()
        except Mismatch as error:
            self._broken = error
            self._session.note_end(error)
            raise
        except MeetAgain as error:
            self._broken = lost = MeetAgain(f"{call}: {error}", error.status)
            if self.is_elastic:
                raise lost from error
            self._exit(lost, lost.exit_code)

    def _exit(self, reason: LockstepError, exit_code: int) -> NoReturn:
        """Nothing that a program for Horovod knows of answers this."""
        self._broken = reason
        self.exit_code = exit_code
        print(f"lockstep: {reason}", file=sys.stderr, flush=True)
        sys.exit(exit_code)
