"""Where the torchruns of a job meet: each has a session of the library, whose ranks are pods."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import socket
import sys
import threading
from typing import Any, Callable, Optional, TypeVar

import torch
import torch.distributed
import torch.distributed.elastic.rendezvous
import torch.distributed.elastic.rendezvous.registry

from lockstep.errors import LockstepError, MeetAgain, code_of
from lockstep.session import Meeting
from lockstep.torch.session import Session

_dist: Any = torch.distributed
_elastic: Any = torch.distributed.elastic.rendezvous
_registry: Any = torch.distributed.elastic.rendezvous.registry

# Workers may end at very different times, as rank 0 evaluates and saves: longer than any job waits.
_FINISH_SECONDS = 30 * 24 * 3600.0

# How long the watching thread waits at a time; closing the session waits for it. Choice: peers are
# to hear of the end at once.
_WATCH_SECONDS = 0.1

# Meetings in a row that broke before the workers could start. Choice, as in
# trainer-runtime/capi/library_session.cc.
_FRUITLESS_MEETINGS_MAX = 20

# An address and a port, as JSON.
_ADDRESS_BYTES_MAX = 256

# Workers of a torch before 2.6, which reads no entry points, find nothing in their torchrun's store
# where restart counts differ. There, rank 0 makes a store at the port that it is told.
_SHARES_STORE = hasattr(_registry, "_register_out_of_tree_handlers")

Answer = TypeVar("Answer")


class Rendezvous(_elastic.RendezvousHandler):  # type: ignore[misc]
    """torch's interface. The store that workers begin with is made anew for each meeting, by the
    torchrun of the first pod: what an older one holds is of workers that are gone.

    A LockstepError that torchrun cannot answer ends it, with the exit code that the error asks for.
    Thread: the main one. Signals are handled while it waits.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._session: Any = None  # from `open` on
        self._store: Any = None  # of the workers; in the first pod's torchrun alone
        self._lost = threading.Event()  # of the newest meeting

    def open(self, plan: str) -> None:
        """Opens the session. `plan` has to be equal in all pods."""
        try:
            self._session = Session(plan, one_per_pod=True)
        except LockstepError as error:
            raise _end(error) from None

    def get_backend(self) -> str:
        return "lockstep"

    @property
    def use_agent_store(self) -> bool:
        return _SHARES_STORE

    def next_rendezvous(self) -> Any:
        """Waits for the torchruns of all pods."""
        if self._session is None:
            raise RuntimeError("the rendezvous 'lockstep' works only with torchrun and "
                               "torch.distributed.launcher, not with other agents")
        self._lost = threading.Event()
        self._store = None
        try:
            return self._meet()
        except LockstepError as error:
            raise _end(error) from None

    def num_nodes_waiting(self) -> int:
        """Not 0: torchrun stops its workers, and comes to the next rendezvous."""
        return int(self._lost.is_set())

    def await_loss(self, seconds: float) -> bool:
        """Whether the newest meeting is over, or is so within that time."""
        return self._lost.wait(seconds)

    def finish(self) -> bool:
        """The workers of this pod have done their work: waits until those of all pods have. False:
        a pod was lost before, and all have to start again."""
        try:
            self._await(lambda: self._session.finish(_FINISH_SECONDS))
        except MeetAgain:
            self._lost.set()
            return False
        except LockstepError as error:
            raise _end(error) from None
        return True

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        """The job's end is the operator's to say."""

    def get_run_id(self) -> str:
        return self._run_id

    def shutdown(self) -> bool:
        """Leaves the job: the other pods notice it at once, unless all have finished."""
        self._lost = threading.Event()  # nobody watches any more
        if self._session is not None:
            with contextlib.suppress(LockstepError):
                self._session.close()
        return True

    def _meet(self) -> Any:
        lost: Optional[MeetAgain] = None
        for _ in range(_FRUITLESS_MEETINGS_MAX):
            meeting = self._await(lambda: self._session.meet(has_state=False, step=0))
            try:
                host, port = self._await(lambda: self._share_store(meeting))
            except MeetAgain as error:
                lost = error
                continue
            self._watch(meeting.epoch)
            return _info(meeting, host, port)
        raise lost or AssertionError("a meeting is tried at least once")

    def _await(self, call: Callable[[], Answer]) -> Answer:
        """What `call` returns, or raises. It uses the session on a thread of its own: Python
        handles no signal while the main thread is in the library."""
        answers: list[Answer] = []
        errors: list[BaseException] = []
        has_ended = threading.Event()

        def run() -> None:
            try:
                answers.append(call())
            except BaseException as error:
                errors.append(error)
            has_ended.set()

        try:
            threading.Thread(target=run, name="lockstep-torchrun", daemon=True).start()
            has_ended.wait()
        except BaseException:  # a signal's handler
            with contextlib.suppress(LockstepError):
                self._session.abort("torchrun was asked to end")
            raise
        for error in errors:
            raise error
        return answers[0]

    def _share_store(self, meeting: Meeting) -> tuple[str, int]:
        """Where the workers of this meeting find their store. Collective. Errors: MeetAgain."""
        told = torch.zeros(_ADDRESS_BYTES_MAX, dtype=torch.uint8)
        if meeting.rank == 0:
            host = _own_address()
            words = list(json.dumps([host, self._open_port(host)]).encode())
            told[:len(words)] = torch.tensor(words, dtype=torch.uint8)
        self._session.broadcast(told, root=0)
        host, port = json.loads(bytes(told.tolist()).rstrip(b"\0"))
        return host, port

    def _open_port(self, host: str) -> int:
        """For the store of the workers."""
        if _SHARES_STORE:
            self._store = _dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)
            return int(self._store.port)
        with socket.socket() as free:
            free.bind(("", 0))
            return int(free.getsockname()[1])

    def _watch(self, epoch: int) -> None:
        lost = self._lost

        def watch() -> None:
            while self._lost is lost:
                loss = self._session.await_loss(epoch, _WATCH_SECONDS)
                if loss is not None:
                    _say(f"{_of_job(loss)}; the workers of this pod start again when all pods "
                         "have joined")
                    lost.set()
                    return

        threading.Thread(target=watch, name="lockstep-torchrun-watch", daemon=True).start()


def processes_per_pod() -> int:
    """As the job says it."""
    return int(os.environ.get("LOCKSTEP_PROCESSES", "1"))


def _info(meeting: Meeting, host: str, port: int) -> Any:
    """A store of this process's own is enough for the torchruns: they agree on nothing by it."""
    store = _dist.HashStore()
    if hasattr(_elastic, "RendezvousInfo"):
        return _elastic.RendezvousInfo(
            store, meeting.rank, meeting.size, _elastic.RendezvousStoreInfo(host, port))
    store.set("MASTER_ADDR", host)
    store.set("MASTER_PORT", str(port))
    return store, meeting.rank, meeting.size


def _own_address() -> str:
    """Of this pod, as a number: its name may still lead to a pod that stood for it before."""
    host = os.environ.get("LOCKSTEP_HOST") or "127.0.0.1"
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host))
    with contextlib.suppress(OSError):
        for found in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM):
            address = str(found[4][0])
            if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
                return address
    return host


def _of_job(error: LockstepError) -> str:
    """Its sentence, with the job's rank that a pod begins with for each pod."""
    count = processes_per_pod()
    return re.sub(r"\brank (\d+)", lambda found: f"rank {int(found[1]) * count}", str(error))


def _say(sentence: str) -> None:
    print(f"lockstep: {sentence}", file=sys.stderr, flush=True)


def _end(error: LockstepError) -> SystemExit:
    _say(_of_job(error))
    return SystemExit(code_of(error))
