"""All ranks of the job between `init` and `shutdown`, and their calls."""

from __future__ import annotations

import atexit
import collections
import os
import sys
from typing import Any, Callable, NamedTuple, NoReturn, Optional, TypeVar

import torch

from lockstep.errors import Ended, InvalidArgument, LockstepError, MeetAgain, Mismatch, Status
from lockstep.horovod.torch.header import (
    HEADER_BYTES,
    Agreement,
    Call,
    Kind,
    agree,
    decode,
)
from lockstep.library import Op
from lockstep.session import CALL_SECONDS, MEETING_SECONDS, Pending, Progress
from lockstep.torch.session import Session, torch_dtype_of
from lockstep.torch.state import broadcast_state, flatten, raw_bytes

# Horovod's own word for how long a call may wait for ranks that do not come; 0 or absent: as here.
SECONDS_VARIABLE = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"
# Choice: ranks may evaluate or write a checkpoint while others wait.
_SECONDS = 600.0

Result = TypeVar("Result")


class Begun(NamedTuple):
    """A reduction on its way, behind its header."""

    call: Call
    header: Pending[torch.Tensor]
    data: Pending[torch.Tensor]

    def has_ended(self) -> bool:
        return self.header.has_ended() and self.data.has_ended()


class World:
    """The ranks of the newest meeting. All ranks make the same calls in the same order; headers
    make sure of it.

    Errors of all calls: Mismatch, after which nothing is possible but to leave; MeetAgain where a
    rank is lost or does not come in time, in an elastic program, where `meet` makes it good; in
    others that ends the process with 75, so that the gang starts anew. Thread: one.
    """

    def __init__(self, session: Session, seconds: float) -> None:
        """`seconds`: of each call."""
        self._session = session
        self._seconds = seconds
        self._broken: Optional[LockstepError] = None
        self._joined: frozenset[int] = frozenset()
        self._counts: collections.Counter[str] = collections.Counter()
        self.is_elastic = False
        self.steps = 0  # that were reported

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

    def meet(self, has_state: bool) -> None:
        """Joins all ranks, again where one is lost meanwhile. `has_state`: whether this one could
        give the others a state, of `steps`. Ends the process where it has no more to do."""
        while True:
            try:
                meeting = self._session.meet(has_state, self.steps, MEETING_SECONDS)
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

    def name(self, kind: str, name: Optional[str]) -> str:
        """That of a call which was given none: equal on all ranks."""
        if name is not None:
            return name
        self._counts[kind] += 1
        return f"{kind}.noname.{self._counts[kind]}"

    def report_step(self) -> None:
        """A step was taken. A process that is lost again without one has no successor."""
        self.steps += 1
        self._session.report(Progress(step=self.steps))

    def exchange(self, call: Call) -> Agreement:
        """Tells all ranks of a call, and waits for theirs."""
        return self._try(call, lambda: self._agree(self._begin_header(call).wait()))

    def begin_all_reduce(self, call: Call, flat: torch.Tensor) -> Begun:
        """Begins to reduce `flat`, which is the library's until `wait` has returned. What ranks
        that have joined give is zeros."""
        assert call.op is not None
        op = call.op
        return self._try(call, lambda: Begun(
            call, self._begin_header(call), self._session.begin_all_reduce(
                flat, op, self._seconds)))

    def wait(self, begun: Begun) -> None:
        """Returns once it is reduced."""

        def wait() -> None:
            self._agree(begun.header.wait())
            begun.data.wait()

        self._try(begun.call, wait)

    def gather(self, call: Call, own: torch.Tensor) -> list[torch.Tensor]:
        """`own` [call.length] of uint8 of each rank, whose lengths may differ."""
        lengths = [header.length for header in self.exchange(call).headers]
        padded = torch.zeros(max(1, *lengths), dtype=torch.uint8)
        padded[: own.numel()] = own
        each = self._try(call, lambda: self._session.all_gather(padded, self._seconds))
        return [block[:length] for block, length in zip(each, lengths)]

    def broadcast(self, call: Call, own: Callable[[int], torch.Tensor]) -> torch.Tensor:
        """Of rank `call.root` to all others: `own` gives this rank's memory of uint8, for the
        root's length."""
        memory = own(self.exchange(call).headers[call.root].length)
        if memory.numel() > 0:
            self._try(call, lambda: self._session.broadcast(memory, call.root, self._seconds))
        return memory

    def broadcast_state(self, call: Call, state: Any) -> Any:
        """`state` of rank `call.root`, as `lockstep.torch.state` takes it apart."""
        if self.rank == call.root:
            flatten(state)  # what cannot travel is this rank's error alone
        self.exchange(call)
        return self._try(
            call, lambda: broadcast_state(self._session, state, call.root, self._seconds))

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
            zeros = torch.zeros(other.elements, dtype=torch_dtype_of(other.data_type))
            self._try(call, lambda: self._session.all_reduce(zeros, op, self._seconds))

    def leave(self, ends_well: bool) -> None:
        """Closes the session: once all ranks do, where this one ends well."""
        try:
            if ends_well and self._broken is None:
                self._seconds = CALL_SECONDS  # those that still work may come later, or never
                self.is_elastic = True  # nothing ends here that has not ended yet
                self.exchange(Call(Kind.SHUTDOWN))
                self._session.finish(CALL_SECONDS)
        except (MeetAgain, Mismatch) as lost:
            print(f"lockstep: shut down on this rank alone: {lost}", file=sys.stderr, flush=True)
        finally:
            self._session.close()

    def _begin_header(self, call: Call) -> Pending[torch.Tensor]:
        block = torch.zeros(self.size, HEADER_BYTES, dtype=torch.uint8)
        block[self.rank] = torch.frombuffer(bytearray(call.encode()), dtype=torch.uint8)
        return self._session.begin_all_reduce(block, Op.SUM, self._seconds)

    def _agree(self, block: torch.Tensor) -> Agreement:
        agreement = agree([decode(raw_bytes(row)) for row in block])
        if agreement.call is not None:
            self._joined = agreement.joined
        return agreement

    def _try(self, call: Call, work: Callable[[], Result]) -> Result:
        if self._broken is not None:
            kind, status = type(self._broken), self._broken.status
            raise kind(f"{call}: after an earlier error: {self._broken}", status)
        try:
            return work()
        except Mismatch as error:
            self._broken = error
            raise
        except MeetAgain as error:
            self._broken = lost = MeetAgain(f"{call}: {error}", error.status)
            if self.is_elastic:
                raise lost from error
            self._exit(lost, lost.exit_code)

    def _exit(self, reason: LockstepError, exit_code: int) -> NoReturn:
        """Nothing that a program for Horovod knows of answers this."""
        self._broken = reason
        print(f"lockstep: {reason}", file=sys.stderr, flush=True)
        sys.exit(exit_code)


_world: Optional[World] = None
_owner = 0  # the process that has called `init`; a fork has a copy
_has_finished = False  # all ranks have said so: nobody meets any more


def world() -> World:
    """That of this process. Errors: InvalidArgument (before `init`, after `shutdown`)."""
    if _world is None:
        raise InvalidArgument("not initialized: call hvd.init() first", Status.NOT_MET)
    return _world


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Opens this process's session, and waits for all ranks. Again: does nothing.

    Errors: NoJob, InvalidArgument (after `shutdown`), LockstepError (another session is open); the
    process ends with 75 where ranks do not come.
    """
    global _world, _owner
    for name, value in (("comm", comm), ("process_sets", process_sets)):
        if value is not None:
            raise InvalidArgument(
                f"{name}: {value!r} found, expected None: there is one set, of all ranks")
    if _world is not None:
        return
    if _has_finished:
        raise InvalidArgument("init: called after shutdown, expected once: with that all ranks "
                              "have said that all work is done")
    seconds = _call_seconds()
    made = World(Session(plan="lockstep.horovod.torch 1"), seconds)
    try:
        made.meet(has_state=False)
    except BaseException:
        made.leave(ends_well=False)
        raise
    _world, _owner = made, os.getpid()


def shutdown() -> None:
    """Leaves the job, once all ranks do; at once on the way of an exception. Also at the end of the
    process. Again, and before `init`: does nothing."""
    _shutdown(sys.exc_info()[0] is None)


def is_initialized() -> bool:
    """Whether `init` was called, and `shutdown` was not."""
    return _world is not None


def rank() -> int:
    """Of this process, from 0; the same after each loss."""
    return world().rank


def size() -> int:
    """Ranks of the job; the same after each loss."""
    return world().size


def local_rank() -> int:
    """The number of this process in its pod."""
    return _place("HOROVOD_LOCAL_RANK")


def local_size() -> int:
    """Ranks of this process's pod."""
    return _place("HOROVOD_LOCAL_SIZE")


def cross_rank() -> int:
    """The number of this process's pod."""
    return _place("HOROVOD_CROSS_RANK")


def cross_size() -> int:
    """Pods of the job that have ranks."""
    return _place("HOROVOD_CROSS_SIZE")


def _place(variable: str) -> int:
    world()
    return _number_of(variable, os.environ.get(variable, ""))


def _call_seconds() -> float:
    return float(_number_of(SECONDS_VARIABLE, os.environ.get(SECONDS_VARIABLE, "0"))) or _SECONDS


def _number_of(variable: str, text: str) -> int:
    if not text.isdecimal():
        raise InvalidArgument(f"{variable}: {text!r} found, expected a whole number from 0")
    return int(text)


def _shutdown(ends_well: bool) -> None:
    global _world, _has_finished
    if _world is not None:
        left, _world = _world, None
        _has_finished = ends_well
        left.leave(ends_well)


@atexit.register
def _at_exit() -> None:
    # `last_type`: the interpreter has printed an exception that nobody caught.
    if _owner == os.getpid():
        _shutdown(not hasattr(sys, "last_type"))
