"""The backend that torch's groups hold: it passes each call on to a backend of torch's own, which
is made anew in each meeting while the group stays."""

from __future__ import annotations

import datetime
import sys
from typing import TYPE_CHECKING, Any, Callable, Optional

import torch
import torch.distributed as dist

from lockstep.errors import LockstepError, Status
from lockstep.torch.groups.alone import answer_alone
from lockstep.torch.groups.inner import Inner, Maker

if TYPE_CHECKING:
    from lockstep.torch.groups.control import Control

_dist: Any = dist
Backend: Any = torch._C._distributed_c10d.Backend

# Calls whose outputs the program computes with: a step that is lost runs to its end on whatever is
# in them, and is forgotten.
_SWALLOWED = (
    "allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "allgather_coalesced",
    "all_gather_single", "all_gather_single_coalesced", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_single_coalesced", "barrier")

# Calls whose outputs steer the program, as sizes and whole objects do: they are never swallowed.
_STEERING = ("gather", "gather_single", "scatter", "alltoall", "all_to_all_single", "send", "recv",
             "recv_anysource")

# Functions of torch that hand objects of Python around by calls of the first kind.
_OBJECT_CALLS = frozenset((
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
    "send_object_list", "recv_object_list"))


def object_call() -> Optional[str]:
    """The function of torch for objects which this thread is in, if any."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in _OBJECT_CALLS:
            return frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    return None


class FacadeWork(dist.distributed_c10d.Work):
    """A call of `facade`. `work`: the inner one; None: it is done. `result`: its outputs."""

    def __init__(self, facade: GroupFacade, work: Any, name: str, result: list[Any]) -> None:
        super().__init__()
        self._facade = facade
        self._work = work
        self._inner = facade._inner
        self._name = name
        self._result = result
        self._future: Any = None

    def wait(self, timeout: Optional[datetime.timedelta] = None) -> bool:
        if self._work is None:
            return True
        try:
            return bool(self._work.wait() if timeout is None else self._work.wait(timeout))
        except Exception as error:
            self._end(error)
            return True

    def _end(self, error: Exception) -> None:
        """Errors: those of `swallow`; none of a meeting before, whose steps are forgotten."""
        if self._facade._inner is self._inner:
            self._facade.swallow(error, self._name)

    def is_completed(self) -> bool:
        return self._work is None or bool(self._work.is_completed())

    def get_future(self) -> Any:
        """What C++ waits for. An error becomes one of the future by `then`: a future of Python's
        own would hand the exception to C++ as if it were the result."""
        if self._future is None:
            self._future = self._make_future()
        return self._future

    def _make_future(self) -> Any:
        if self._work is None:
            tensors = _flat(self._result)
            devices: Any = list({one.device for one in tensors if one.device.type != "cpu"})
            done: torch.futures.Future[Any] = torch.futures.Future(devices=devices or None)
            done.set_result(self._result)
            return done

        def end(ended: Any) -> Any:
            try:
                return ended.value()
            except Exception as error:
                self._end(error)
                return self._result

        return self._work.get_future().then(end)


def _flat(result: list[Any]) -> list[torch.Tensor]:
    return [one for item in result for one in (item if isinstance(item, list) else [item])]


class GroupFacade(Backend):  # type: ignore[misc]
    """A group on this rank, for the devices of one backend. Thread: those of torch."""

    # torch's own properties of these names would ask this object again, and so on.
    supports_coalescing = property(lambda self: False)
    supports_splitting = property(lambda self: False)
    supports_shrinking = property(lambda self: False)
    supports_reconfigure = property(lambda self: False)
    supports_window = property(lambda self: False)
    supports_abort_hooks = property(lambda self: False)
    supports_completion_hooks = property(lambda self: False)
    _supports_time_estimate = property(lambda self: False)

    def __init__(self, control: Control, backend: str, inner_type: type[Inner], make: Maker,
                 options: Any, own_options: Any) -> None:
        super().__init__(options.group_rank, options.group_size)
        self._control = control
        self._backend = backend
        self._inner_type = inner_type
        self._make = make
        self._options = options
        self._own_options = own_options
        self._inner: Optional[Inner] = None
        self._calls: Any = None  # the inner backend; None: this rank is alone
        self.group_rank: int = options.group_rank
        self.group_size: int = options.group_size
        self.key = f"{options.group_id}/{backend}"
        self.ranks: list[int] = (
            list(options.global_ranks_in_group) or list(range(options.group_size)))

    def form(self, store: Any, epoch: int) -> None:
        """Makes the inner backend of a meeting with the other ranks of the group. Errors: MeetAgain
        (the meeting is over), those of torch."""
        inner = self._inner = self._inner_type()  # which `abort` reaches from now on
        if self._control.lost is not None:
            raise self._control.lost
        store = _dist.PrefixStore(self.key, store)
        inner.form(self._make, self._options, self._own_options, store, epoch)
        self._calls = inner.backend

    def abort(self) -> None:
        """Ends all calls in progress, here. Thread: any."""
        inner = self._inner
        if inner is not None:
            inner.abort()

    def error(self) -> Optional[str]:
        """What the inner backend has failed with by itself, where nobody waits for a call."""
        return None if self._inner is None else self._inner.error()

    def drop(self) -> None:
        """Lets the inner backend go, whose calls have ended."""
        self._inner = self._calls = None

    def swallow(self, error: Exception, name: str) -> None:
        """After `error` of a call: returns where the meeting is over and the step is to run to its
        end. Errors: MeetAgain (it is not to); `error` itself, where no rank was lost."""
        if self._control.await_loss() is None:
            self._control.note_failure(name, error)
            raise error
        self._check_swallowed(name)

    def _check_swallowed(self, name: str) -> None:
        """Once the meeting is over. Errors: MeetAgain."""
        lost = self._control.lost
        if lost is not None and (
                self._control.raises or name in _STEERING or object_call() is not None):
            raise lost

    def _call(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> FacadeWork:
        first = arguments[0] if arguments else []
        result = first if isinstance(first, list) else [first]
        work = None
        if self._control.silence is not None:
            raise LockstepError(
                f"{object_call() or name}: {self._control.silence}", Status.NOT_MET)
        if self._control.is_agreed:
            answer_alone(self, name, object_call(), arguments)
        elif self._control.lost is not None:
            self._check_swallowed(name)
        elif self._calls is None:
            answer_alone(self, name, object_call(), arguments)
        else:
            try:
                work = getattr(self._calls, name)(*arguments, **named)
            except Exception as error:
                self.swallow(error, name)
        return FacadeWork(self, work, name, result)

    def monitored_barrier(self, options: Any, waits_for_all: bool) -> None:
        """A barrier: a rank that does not come is one that the session knows to be lost."""
        self._call("barrier", (options,), {}).wait()

    def getBackendName(self) -> str:
        return self._backend

    @property
    def options(self) -> Any:
        if self._calls is not None:
            return self._calls.options
        return Backend.Options(self._backend, self._options.timeout)

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        self._options.timeout = timeout
        if self._calls is not None:
            self._calls.set_timeout(timeout)

    def shutdown(self) -> None:
        """The group is destroyed."""
        self._control.forget(self)
        inner, self._calls, self._inner = self._calls, None, None
        if inner is not None:
            inner.shutdown()

    def _set_sequence_number_for_group(self) -> None:
        """Ranks that are replaced begin anew, so there is none."""


class CoalescingFacade(GroupFacade):
    """That of a backend which gathers calls and makes them together."""

    supports_coalescing = property(lambda self: True)

    def start_coalescing(self) -> None:
        if self._calls is not None and self._control.lost is None:
            self._calls._start_coalescing()

    def end_coalescing(self) -> FacadeWork:
        work = None
        if self._calls is not None and self._control.lost is None:
            try:
                work = self._calls._end_coalescing()
            except Exception as error:
                self.swallow(error, "coalesced calls")
        return FacadeWork(self, work, "coalesced calls", [])


def _forwarding(name: str) -> Callable[..., FacadeWork]:
    def call(self: GroupFacade, *arguments: Any, **named: Any) -> FacadeWork:
        return self._call(name, arguments, named)

    call.__name__ = name
    return call


for _name in (*_SWALLOWED, *_STEERING):
    setattr(GroupFacade, _name, _forwarding(_name))
