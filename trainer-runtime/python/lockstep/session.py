"""The session of a process in its job, for any kind of array."""

from __future__ import annotations

import abc
import contextlib
import ctypes
import dataclasses
import math
import os
import zlib
from types import TracebackType
from typing import Any, Generic, NamedTuple, Optional, TypeVar, Union

from lockstep import library
from lockstep.arguments import (
    INT32_MAX,
    real_number,
    seconds,
    text,
    truth,
    whole_number,
)
from lockstep.errors import InvalidArgument, LockstepError, Mismatch, Status, error_of, note_end
from lockstep.interrupt import InterruptWatcher
from lockstep.library import DataType, Leave, Op, Phase

# Choice, as in examples/own_program.c: for one call.
CALL_SECONDS = 60.0

MEETING_VARIABLE = "LOCKSTEP_RENDEZVOUS_TIMEOUT_SECONDS"
_MEETING_SECONDS = 600.0  # where the job does not say; the contract's default

Array = TypeVar("Array")
Self = TypeVar("Self", bound="Session[Any]")


def meeting_seconds() -> float:
    """How long the ranks of this job wait for each other: its `rendezvousTimeoutSeconds`."""
    try:
        said = float(os.environ.get(MEETING_VARIABLE, ""))
    except ValueError:
        return _MEETING_SECONDS
    return said if 0 < said < math.inf else _MEETING_SECONDS


class Memory(NamedTuple):
    """Elements side by side in the host's memory."""

    address: int
    element_count: int
    type: int  # a DataType, with a word as LOCKSTEP_TYPE_WITH has it


class Member(NamedTuple):
    """One rank of a rendezvous. All ranks see the same members."""

    rank: int
    step: int
    has_state: bool
    incarnation: int
    host: str


class Meeting(NamedTuple):
    """A rendezvous, as `meet` returns it. `state_source`: the rank that gives its state to the
    others; None: no rank has a state."""

    epoch: int
    rank: int
    size: int
    state_source: Optional[int]
    members: tuple[Member, ...]


@dataclasses.dataclass(frozen=True)
class Progress:
    """Numbers for the job's status and metrics; None: not known. `loss` may be any number,
    `accuracy` is from 0 to 1, and all others are 0 or more."""

    step: int
    steps_total: Optional[int] = None
    data_epoch: Optional[int] = None
    sample_count: Optional[int] = None  # that this rank used in the step
    loss: Optional[float] = None
    accuracy: Optional[float] = None
    samples_per_second: Optional[float] = None
    phase: Phase = Phase.KEEP


def figures_of(progress: Progress) -> library.ProgressIn:
    """`progress` as the library reads it. Errors: InvalidArgument."""

    if not isinstance(progress, Progress):
        raise InvalidArgument(f"progress: {progress!r} found, expected a lockstep.Progress")
    unknown = ", or None if the value is not known"

    def count(name: str) -> int:
        value = getattr(progress, name)
        return -1 if value is None else whole_number(name, value, or_else=unknown)

    def figure(name: str) -> float:
        value = getattr(progress, name)
        number = math.nan if value is None else real_number(name, value)
        if number < 0 and name != "loss":  # -1 is the library's word for what is not known
            raise InvalidArgument(f"{name}: {value!r} found, expected 0 or more{unknown}")
        return number

    if progress.phase not in set(Phase):
        names = ", ".join(one.name for one in Phase)
        raise InvalidArgument(
            f"phase: {progress.phase!r} found, expected a lockstep.Phase: {names}")
    return library.ProgressIn(
        struct_size=ctypes.sizeof(library.ProgressIn),
        step=whole_number("step", progress.step),
        steps_total=count("steps_total"),
        data_epoch=count("data_epoch"),
        sample_count=count("sample_count"),
        loss=figure("loss"),
        accuracy=figure("accuracy"),
        samples_per_second=figure("samples_per_second"),
        phase=progress.phase,
    )


OpLike = Union[Op, str]


def op_of(op: OpLike) -> Op:
    """`op`, or the Op with the name `op`: "sum", "min", "max", "mean". Errors: InvalidArgument."""
    if isinstance(op, Op):
        return op
    try:
        return Op[op.upper()]
    except (KeyError, AttributeError):
        names = ", ".join(one.name.lower() for one in Op)
        raise InvalidArgument(f"op: {op!r} found, expected one of {names}") from None


class Pending(Generic[Array]):
    """A reduction in progress. The session keeps its array until the reduction has ended."""

    def __init__(self, session: Session[Array], handle: int, array: Array) -> None:
        self._session = session
        self._handle = handle
        self._array = array

    def wait(self) -> Array:
        """Waits until the reduction has ended. Call it once. Errors: those of
        `Session.all_reduce`."""
        self._session._wait(self._handle)
        return self._array

    def has_ended(self) -> bool:
        """Whether `wait` would return at once."""
        return self._session._has_ended(self._handle)


class Session(abc.ABC, Generic[Array]):
    """The session of this process, which can have one session at a time. For collectives, all ranks
    make the same calls in the same order; results are equal bit by bit on all ranks.

    Errors: after `MeetAgain`, call `meet`. `InvalidArgument` concerns only this call. All errors
    derive from `LockstepError`. No call waits longer than its `timeout`, in seconds.
    Thread: one at a time; `abort`, `await_loss` and `is_stop_requested` from any.
    """

    def __init__(
        self,
        plan: Optional[str] = None,
        catch_stop: bool = False,
        one_per_pod: bool = False,
    ) -> None:
        """Opens the session from the job's environment. `plan`: a text that must be equal on all
        ranks. `catch_stop`: SIGTERM becomes a request to stop; the program must have no handler
        for it. `one_per_pod`: each pod is one rank, for a process that starts the pod's other
        processes.

        Errors: NoJob, LockstepError (ALREADY_OPEN, SYSTEM), InvalidArgument.
        """
        self._library = library.load()
        self._handle = ctypes.c_void_p()
        self._pending: dict[int, Array] = {}
        self._meeting: Optional[Meeting] = None
        options = library.Options(
            struct_size=ctypes.sizeof(library.Options),
            plan=None if plan is None else text("plan", plan).encode(),
            catch_stop=int(truth("catch_stop", catch_stop)),
            one_per_pod=int(truth("one_per_pod", one_per_pod)),
        )
        opened: int = self._library.lockstep_open(
            ctypes.byref(options), ctypes.byref(self._handle))
        self._check(opened)
        self._interrupts = InterruptWatcher(lambda: self.abort("interrupted (SIGINT)"))

    @property
    def meeting(self) -> Meeting:
        """The newest rendezvous. Errors: LockstepError (NOT_MET)."""
        if self._meeting is None:
            raise LockstepError(
                "this process has joined no rendezvous: call meet first", Status.NOT_MET)
        return self._meeting

    @property
    def rank(self) -> int:
        """The rank of this process, from 0. It never changes."""
        return self.meeting.rank

    @property
    def size(self) -> int:
        """The number of ranks of the job."""
        return self.meeting.size

    def meet(self, has_state: bool, step: int, timeout: Optional[float] = None) -> Meeting:
        """Joins a new rendezvous of all ranks, and waits for them. `has_state`: whether this rank
        holds a state. `step`: how many steps were applied to it. `timeout`: None for the job's
        `rendezvousTimeoutSeconds`. Reductions in progress end with MeetAgain.

        Errors: MeetAgain (TIMEOUT names the missing ranks), Mismatch, Superseded, Finished,
        Stopped.
        """
        step = whole_number("step", step)
        limit = meeting_seconds() if timeout is None else seconds("timeout", timeout)
        met = library.MeetingOut(struct_size=ctypes.sizeof(library.MeetingOut))
        try:
            self._call("meet", int(has_state), step, limit, ctypes.byref(met))
        finally:
            self._forget_pending()
        members = tuple(self._member(rank) for rank in range(met.size))
        source = met.state_source if met.state_source >= 0 else None
        self._meeting = Meeting(met.epoch, met.rank, met.size, source, members)
        return self._meeting

    def all_reduce(
        self, array: Array, op: OpLike = Op.SUM, timeout: float = CALL_SECONDS
    ) -> Array:
        """Reduces `array` over all ranks, in place, and returns it."""
        memory = self._described(array, is_written=True)
        self._collect(array, "all_reduce", *memory, op_of(op), seconds("timeout", timeout))
        return array

    def begin_all_reduce(
        self, array: Array, op: OpLike = Op.SUM, timeout: float = CALL_SECONDS
    ) -> Pending[Array]:
        """Like `all_reduce`, but in the background. Do not use `array` until `wait` of the result
        has returned. `timeout` counts from this call."""
        memory = self._described(array, is_written=True)
        handle = ctypes.c_uint64()
        self._call(
            "all_reduce_begin", *memory, op_of(op), seconds("timeout", timeout),
            ctypes.byref(handle))
        self._pending[handle.value] = array
        return Pending(self, handle.value, array)

    def reduce_scatter(
        self, array: Array, op: OpLike = Op.SUM, timeout: float = CALL_SECONDS
    ) -> Array:
        """Reduces `array` [size, ...] over all ranks. Rank r gets block r as a new array [...]."""
        memory = self._described(array, is_written=False)
        shape = self._shape(array)
        if not shape or shape[0] != self.size:
            raise InvalidArgument(
                f"array: shape {list(shape)} found, expected a first dimension of {self.size}, "
                "a block for each rank")
        output = self._empty(array, shape[1:])
        address, count, _ = self._memory(output, "output", is_written=True)
        self._collect(
            array, "reduce_scatter", memory.address, address, count, memory.type, op_of(op),
            seconds("timeout", timeout))
        return output

    def all_gather(self, array: Array, timeout: float = CALL_SECONDS) -> Array:
        """Gathers `array` [...] from all ranks, in rank order, into a new array [size, ...]."""
        address, count, data_type = self._described(array, is_written=False)
        output = self._empty(array, (self.size, *self._shape(array)))
        target = self._memory(output, "output", is_written=True).address
        self._collect(
            array, "all_gather", address, target, count, data_type, seconds("timeout", timeout))
        return output

    def broadcast(self, array: Array, root: int, timeout: float = CALL_SECONDS) -> Array:
        """Copies `array` from rank `root` to all other ranks, in place, and returns it."""
        memory = self._described(array, is_written=True)
        root = whole_number("root", root, most=INT32_MAX)
        self._collect(array, "broadcast", *memory, root, seconds("timeout", timeout))
        return array

    def barrier(self, timeout: float = CALL_SECONDS) -> None:
        """Waits until all ranks have called it."""
        self._call("barrier", seconds("timeout", timeout))

    def should_stop(self, timeout: float = CALL_SECONDS) -> Leave:
        """Whether this rank should leave now. Call it at the end of a step, when all ranks hold the
        same state. To leave, end with exit code 42. If all ranks were asked to stop, all leave
        after the same step. A rank that alone was asked to stop leaves a second later. Leave.NOT
        is false. Collective."""
        answer = ctypes.c_int()
        self._call("should_stop", ctypes.byref(answer), seconds("timeout", timeout))
        return Leave(answer.value)

    def should_save(self) -> bool:
        """Whether this rank should save its state, because no lower rank with a state is left. Ask
        after Stopped, or after a loss while this process is asked to stop. Waits for lower ranks
        to leave, at most as long as it takes to notice a loss: 2 s by default.

        Errors: LockstepError (NOT_MET).
        """
        answer = ctypes.c_int()
        self._call("should_save", ctypes.byref(answer))
        return answer.value != 0

    @property
    def is_stop_requested(self) -> bool:
        """Whether this process was asked to stop."""
        return bool(self._library.lockstep_stop_requested(self._handle))

    def abort(self, reason: str) -> None:
        """Ends the current call with MeetAgain, on this rank and on the others. Thread: any."""
        self._check(self._library.lockstep_abort(self._handle, reason.encode()))

    def await_loss(self, epoch: int, timeout: float) -> Optional[LockstepError]:
        """Waits until the rendezvous of `epoch` has ended, and returns why. None: it has not
        ended within `timeout`, or the session is closed. `close` waits for this call.
        Thread: any."""
        status: int = self._library.lockstep_await_loss(self._handle, epoch, timeout)
        if status in (Status.TIMEOUT, Status.CLOSED):
            return None
        sentence: bytes = self._library.lockstep_last_error()
        return error_of(status, sentence.decode(errors="replace"))

    def report(self, progress: Progress) -> None:
        """Shows this rank's progress in `lockstep run`, `kubectl get tj` and metrics. Report each
        step: a process that is lost twice without a report in between is not replaced in its pod.

        Errors: InvalidArgument (also for a step below one that was reported since `meet`).
        """
        self._call("report", ctypes.byref(figures_of(progress)))

    def note_end(self, error: LockstepError) -> None:
        """Notes that `error` ends this process's work, even if the program catches the error: see
        `errors.note_end`. A Mismatch is also sent to the pod's runtime, which then treats exit
        code 0 as a failure."""
        note_end(error)
        if isinstance(error, Mismatch):
            with contextlib.suppress(LockstepError):  # the session is closed, or the parent's
                self._call("report_mismatch", str(error).encode())

    def finish(self, timeout: float = CALL_SECONDS) -> None:
        """Says that all work is done, and waits for all ranks to say so. No rendezvous follows.
        Save results before this call: if a signal ends the process later, it counts as success."""
        self._call("finish", seconds("timeout", timeout))

    def close(self) -> None:
        """Leaves the job. Ranks that still work lose this rank. A second call does nothing.

        Errors: Forked, LockstepError (BUSY).
        """
        if self._handle.value is None:
            return
        self._call("close")
        self._handle = ctypes.c_void_p()
        self._interrupts.close()
        self._pending.clear()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    @abc.abstractmethod
    def _memory(self, array: Array, name: str, is_written: bool) -> Memory:
        """Where its elements are. Errors: InvalidArgument, which calls it `name`."""

    @abc.abstractmethod
    def _shape(self, array: Array) -> tuple[int, ...]:
        """Its lengths, outermost first."""

    @abc.abstractmethod
    def _empty(self, like: Array, shape: tuple[int, ...]) -> Array:
        """A new array of that type."""

    def _member(self, rank: int) -> Member:
        found = library.MemberOut(struct_size=ctypes.sizeof(library.MemberOut))
        self._call("get_member", rank, ctypes.byref(found))
        return Member(
            found.rank, found.step, bool(found.has_state), found.incarnation, found.host.decode())

    def _described(self, array: Array, is_written: bool) -> Memory:
        """The memory of an array that has the same shape on all ranks, else they fail."""
        memory = self._memory(array, "array", is_written)
        word = zlib.crc32(repr(self._shape(array)).encode()) & library.TYPE_WORD_MAX
        return memory._replace(type=memory.type + word * library.TYPE_WORD_ONE)

    def _collect(self, array: Optional[Array], name: str, *arguments: Any) -> None:
        """Calls a collective on `array`. Errors: those of the call; a Mismatch says of what shape
        the array is here."""
        try:
            self._call(name, *arguments)
        except Mismatch as error:
            if array is None:
                raise
            kind = DataType(self._memory(array, "array", False).type).name.lower()
            what = f"{kind} {list(self._shape(array))}"
            raise Mismatch(f"{error}; here {what}", error.status) from None

    def _wait(self, handle: int) -> None:
        try:
            self._collect(self._pending.get(handle), "wait", handle)
        finally:
            self._pending.pop(handle, None)

    def _has_ended(self, handle: int) -> bool:
        answer = ctypes.c_int()
        self._call("has_ended", handle, ctypes.byref(answer))
        return answer.value != 0

    def _forget_pending(self) -> None:
        """Gives back what nobody will wait for: the meeting of these calls is over."""
        for handle in list(self._pending):
            self._library.lockstep_wait(self._handle, handle)
        self._pending.clear()

    def _call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._library, "lockstep_" + name)
        interrupts = self._interrupts
        number = interrupts.number_call()
        try:
            if number != 0:
                interrupts.call = number
            status: int = function(self._handle, *arguments)
        finally:
            if number != 0:
                interrupts.call = 0
        self._check(status)

    def _check(self, status: int) -> None:
        if status != Status.OK:
            sentence: bytes = self._library.lockstep_last_error()
            raise error_of(status, sentence.decode(errors="replace"))
