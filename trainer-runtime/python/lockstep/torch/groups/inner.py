"""What a facade holds for one meeting: a backend of torch's own, and how its calls are ended."""

from __future__ import annotations

import contextlib
import datetime
import os
import socket
import threading
import time
from typing import Any, Callable, Optional

import torch
import torch.distributed

from lockstep.errors import LockstepError
from lockstep.session import meeting_seconds

_dist: Any = torch.distributed
_Error: Any = torch._C._distributed_c10d.ErrorType

# What torch makes a backend by: its options, and those of the program.
Maker = Callable[[Any, Any], Any]

# Choice: far below what forming a group takes.
_LOOK_AGAIN_SECONDS = 0.002


class EndingStore(_dist.Store):  # type: ignore[misc]
    """A store whose waits end when the meeting is over: what a lost rank was to write never comes.
    """

    def __init__(self, store: Any, timeout: datetime.timedelta,
                 loss: Callable[[], Optional[LockstepError]]) -> None:
        super().__init__()
        self._store = store
        self._seconds = timeout.total_seconds()
        self._loss = loss

    def set(self, key: str, value: Any) -> None:
        self._store.set(key, value)

    def get(self, key: str) -> bytes:
        self.wait([key])
        found: bytes = self._store.get(key)
        return found

    def add(self, key: str, amount: int) -> int:
        total: int = self._store.add(key, amount)
        return total

    def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
        found: bytes = self._store.compare_set(key, expected, desired)
        return found

    def check(self, keys: list[str]) -> bool:
        return bool(self._store.check(keys))

    def delete_key(self, key: str) -> bool:
        return bool(self._store.delete_key(key))

    def num_keys(self) -> int:
        count: int = self._store.num_keys()
        return count

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        self._seconds = timeout.total_seconds()

    def wait(self, keys: list[str], timeout: Optional[datetime.timedelta] = None) -> None:
        limit = self._seconds if timeout is None else timeout.total_seconds()
        began = time.monotonic()
        while not self._store.check(keys):
            loss = self._loss()
            if loss is not None:
                raise loss
            if time.monotonic() - began > limit:
                raise _dist.DistStoreError(f"no rank wrote {', '.join(keys)} to the store within "
                                           f"{limit:g} s")
            time.sleep(_LOOK_AGAIN_SECONDS)


class Inner:
    """A backend of one meeting. `backend`: torch's; None: it is not made yet. Thread: `abort` from
    any."""

    backend: Any = None

    def form(self, make: Maker, options: Any, own_options: Any, store: Any, epoch: int) -> None:
        """Makes it, together with the other ranks of the group. Errors: those of torch."""
        options.store = store
        self.backend = make(options, own_options)

    def abort(self) -> None:
        """Ends all its calls, here, at once, and `form`."""
        if self.backend is not None:
            self.backend.abort()

    def error(self) -> Optional[str]:
        """What it has failed with."""
        found = _Error.SUCCESS if self.backend is None else self.backend.get_error()
        return None if found == _Error.SUCCESS else str(found.name)


class GlooInner(Inner):
    """gloo has no abort: a rank whose neighbour in the ring lives would wait until the timeout. The
    end of its connections is what it hears. One that is being made has none to a rank that was lost
    before it had called: it is left to its timeout, in a thread of its own."""

    def __init__(self) -> None:
        self._sockets: dict[int, str] = {}
        self._is_decided = threading.Event()  # it is made, or has failed, or is not wanted any more
        self._error: Optional[Exception] = None

    def form(self, make: Maker, options: Any, own_options: Any, store: Any, epoch: int) -> None:
        before = _sockets()
        threading.Thread(
            target=self._make, args=(make, options, own_options, store, epoch),
            name="lockstep-gloo", daemon=True).start()
        limit = meeting_seconds()
        is_decided = self._is_decided.wait(limit)
        if self.backend is None:
            raise self._error or _dist.DistBackendError(
                "a gloo group was not formed, because its rendezvous is over" if is_decided else
                f"a gloo group was not formed within {limit:g} s")
        self._sockets = {fd: name for fd, name in _sockets().items() if before.get(fd) != name}

    def _make(self, *arguments: Any) -> None:
        try:
            super().form(*arguments)
        except Exception as error:
            self._error = error
        self._is_decided.set()

    def abort(self) -> None:
        self._is_decided.set()
        now = _sockets()
        for fd, name in self._sockets.items():
            if now.get(fd) != name:
                continue  # closed, and maybe another's by now
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as end:
                # Not the one that listens: gloo's thread ends the process where that fails.
                if not end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    end.shutdown(socket.SHUT_RDWR)


class NcclInner(Inner):
    """nccl2, whose watchdog revokes a communicator that can be made anew, in place of ending the
    process."""

    def form(self, make: Maker, options: Any, own_options: Any, store: Any, epoch: int) -> None:
        options.enable_reconfigure = True
        super().form(make, options, own_options, store, epoch)
        store.set(f"handle/{options.group_rank}", self.backend.get_reconfigure_handle())
        forming = _dist.distributed_c10d.ReconfigureOptions()
        forming.uuid = epoch
        forming.handles = [
            store.get(f"handle/{rank}").decode() for rank in range(options.group_size)]
        forming.timeout = min(options.timeout, datetime.timedelta(seconds=meeting_seconds()))
        self.backend.reconfigure(forming).wait()


def _sockets() -> dict[int, str]:
    """Of this process: descriptors, and what they stand for."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            link = os.readlink(f"/proc/self/fd/{name}")
            if link.startswith("socket:"):
                found[int(name)] = link
    return found
