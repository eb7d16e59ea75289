"""The session behind a process's groups: who is lost, and the meetings in which groups are formed.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import os
import signal
import sys
import threading
import time
from typing import Any, Iterator, Optional

import torch
import torch.distributed

from lockstep.errors import LockstepError, MeetAgain, Mismatch, Status
from lockstep.session import CALL_SECONDS, Meeting, meeting_seconds
from lockstep.torch.gradients import LeftLoop
from lockstep.torch.groups.facade import GroupFacade
from lockstep.torch.groups.inner import EndingStore
from lockstep.torch.session import Session
from lockstep.torch.state import raw_bytes

_dist: Any = torch.distributed

# What ranks of a program with groups of torch have to agree on.
_PLAN = "lockstep.torch.groups"

# Choice: `close` waits for the watch, and somebody for `close`.
_WATCH_SECONDS = 0.1

# A call of gloo or NCCL may fail before the session knows who is gone. Choice: above the 2 s in
# which a silent rank is noticed, with room for a busy machine.
_CONFIRM_SECONDS = 10.0

# A communicator of NCCL may keep the thread that revokes it. Choice: far above what it takes on a
# busy machine.
_END_SECONDS = 60.0

_HOST_VARIABLE = "LOCKSTEP_HOST"

# Of calls between the end of a meeting's groups and the next ones.
_MEETING = ("called while the ranks join a new rendezvous and hand over the state, when no group "
            "exists. Call collectives within job.attempt() or after the Job has ended, but not "
            "from other threads or from what loads a state")

# Where a rank meets: a word that ranks of a meeting tell each other.
_AT_BEGINNING, _AT_JOB, _LEAVING = 0, 1, 2


def is_replacement() -> bool:
    """Whether this process takes the place of one that had begun."""
    names = ("LOCKSTEP_INCARNATION", "LOCKSTEP_PROCESS_START")
    return any(int(os.environ.get(name) or 0) > 0 for name in names)


class GroupsSession(Session):
    """The session of a process whose groups are torch's. The first meeting is that in which the
    groups of an undisturbed set-up are formed; the Job takes it over, where nobody was lost.

    Errors of `meet`: those of the base; LeftLoop (some have left the loop, and others wait for them
    in a call of a group, which has ended in the same timeout)."""

    def __init__(self, control: Control, catch_stop: bool) -> None:
        super().__init__(_PLAN, catch_stop)
        self._control = control
        self._is_handed_on = True
        self.has_left_loop = False  # this rank takes no other step

    def meet(self, has_state: bool, step: int, timeout: Optional[float] = None) -> Meeting:
        standing = None if self._is_handed_on else self._standing()
        self._is_handed_on = True
        if standing is not None:
            return standing
        while True:
            self._control.leave()
            meeting = super().meet(has_state, step, timeout)
            places = self._places(_LEAVING if self.has_left_loop else _AT_JOB)
            if _AT_BEGINNING in places:
                continue
            leaving = [rank for rank, place in enumerate(places) if place == _LEAVING]
            # A rank without the state of their last step does not know yet how far the loop has
            # come: it replaces another one, or has not heard the outcome of the vote.
            last = max((meeting.members[rank].step for rank in leaving), default=0)
            staying = [one.rank for one in meeting.members
                       if one.has_state and one.step >= last and one.rank not in leaving]
            if leaving and staying:
                raise LeftLoop(leaving, staying)
            return meeting

    def meet_at_beginning(self) -> Optional[Meeting]:
        """None: some rank has been replaced, whose set-up has met nobody: so does this one's."""
        try:
            meeting = super().meet(False, 0)
            if all(place == _AT_BEGINNING for place in self._places(_AT_BEGINNING)):
                self._is_handed_on = False
                return meeting
        except MeetAgain as lost:
            if lost.status == Status.TIMEOUT:
                raise
        return None

    def finish(self, timeout: float = CALL_SECONDS) -> None:
        """After it a rank that leaves is no loss: the groups stay, and nobody watches them."""
        self._control.end_watch()
        super().finish(timeout)

    def close(self) -> None:
        self._control.end_watch()
        super().close()

    def _standing(self) -> Optional[Meeting]:
        try:
            self.barrier(meeting_seconds())
            return self.meeting
        except MeetAgain:
            return None

    def _places(self, own: int) -> list[int]:
        """Errors: MeetAgain."""
        found: list[int] = self.all_gather(torch.tensor(own)).tolist()
        return found


class Control:
    """Of all groups of this process. Thread: that of the program, but for `lost`, `await_loss`."""

    def __init__(self) -> None:
        self.raises = True  # a loss raises MeetAgain from calls: nobody would forget what they gave
        self.is_agreed = False  # all ranks hold the same, so that calls need not ask the others
        self.silence: Optional[str] = None  # why no call may be made now
        self._facades: dict[str, GroupFacade] = {}
        self._epoch: Optional[int] = None  # of the groups that are formed; None: this rank is alone
        self._lost: Optional[LockstepError] = None  # why the meeting of `_epoch` is over
        self._is_lost = threading.Event()
        self._failure: Optional[str] = None  # of a call in the meeting of `_epoch`
        self._mutex = threading.Lock()
        self._watch: Optional[threading.Thread] = None
        self._server: Any = None  # of rank 0
        self._store: Any = None
        # A handler of the program's own is left alone.
        catches_stop = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        self.session = GroupsSession(self, catches_stop)
        self.default_store: Any = _dist.HashStore()
        if not is_replacement():
            meeting = self.session.meet_at_beginning()
            if meeting is not None:
                self.form()
                self.default_store = self._store

    @property
    def lost(self) -> Optional[LockstepError]:
        """Why the meeting of the groups is over; None: it stands, or this rank is alone."""
        return self._lost

    def await_loss(self) -> Optional[LockstepError]:
        """After a call has failed: why the meeting is over, which may be known a moment later."""
        if self._epoch is not None and self._watch is not None:
            self._is_lost.wait(_CONFIRM_SECONDS)
        return self._lost

    def note_failure(self, name: str, error: Exception) -> None:
        """Of a call, though no rank is known to be lost. The program may catch it. Thread: any."""
        self._failure = f"{name} failed: {error}"

    def failure(self) -> Optional[str]:
        """What has failed since the groups were formed, so that what they gave is not complete."""
        errors = {key: one.error() for key, one in self._facades.items()}
        return self._failure or next(
            (f"group {key} has failed: {error}" for key, error in errors.items() if error), None)

    def add(self, facade: GroupFacade) -> None:
        """A group that the program makes."""
        self._facades[facade.key] = facade
        if self._epoch is not None and self._lost is None:
            try:
                self._form([facade], self._epoch)
            except Exception:
                self.forget(facade)
                raise

    def forget(self, facade: GroupFacade) -> None:
        """A group that the program has destroyed."""
        if self._facades.get(facade.key) is facade:
            del self._facades[facade.key]

    @contextlib.contextmanager
    def silent(self, why: str) -> Iterator[None]:
        """Calls raise LockstepError, whose sentence begins with their name and goes on with `why`.
        """
        before, self.silence = self.silence, why
        try:
            yield
        finally:
            self.silence = before

    @contextlib.contextmanager
    def agreed(self) -> Iterator[None]:
        """Calls return what they would if all ranks held the same."""
        self.is_agreed = True
        try:
            yield
        finally:
            self.is_agreed = False

    @property
    def answers_itself(self) -> bool:
        """Whether calls return without the other ranks: as in `agreed`, or of a replacement that
        has not met them yet."""
        return self.is_agreed or self._epoch is None

    def leave(self) -> None:
        """Before a meeting: all calls end, and all inner backends go. From the first one on this
        rank is not alone any more: a call before the groups are formed has no answer."""
        self.silence = _MEETING
        self._end_epoch()
        _join(self._abort())
        for facade in self._facades.values():
            facade.drop()

    def form(self) -> None:
        """Makes all groups anew, in the meeting that the session has joined. In one order on all
        ranks, whatever order they were made in.

        Errors: Mismatch (ranks have other groups; names one), MeetAgain.
        """
        epoch = self.session.meeting.epoch
        if self._epoch == epoch:
            self._check_groups()
            return
        self.leave()
        self._check_groups()
        self._store = self._open_store(epoch)
        self._epoch = epoch
        self._watch = threading.Thread(
            target=self._watch_for_loss, args=(epoch,), name="lockstep-groups", daemon=True)
        self._watch.start()
        self._form([self._facades[key] for key in sorted(self._facades)], epoch)
        self.silence = None

    def _form(self, facades: list[GroupFacade], epoch: int) -> None:
        try:
            for facade in facades:
                facade.form(self._store, epoch)
        except Exception:
            loss = self.await_loss()
            if loss is not None:
                raise loss from None
            raise

    def end_watch(self) -> None:
        """Before the session ends, or another epoch begins."""
        watch, self._watch = self._watch, None
        if watch is not None:
            _join([watch])

    def _end_epoch(self) -> None:
        with self._mutex:
            self._epoch = self._lost = self._failure = None
            self._is_lost.clear()
        self.end_watch()

    def _watch_for_loss(self, epoch: int) -> None:
        me = threading.current_thread()
        while self._watch is me:
            loss = self.session.await_loss(epoch, _WATCH_SECONDS)
            if loss is not None:
                self._lose(epoch, loss)
                return

    def _lose(self, epoch: int, loss: LockstepError) -> None:
        """Ends all calls of all groups at the same time: a call may wait for one that waits for
        another group's."""
        with self._mutex:
            if self._epoch != epoch:
                return
            self._lost = loss
        endings = self._abort()
        self._is_lost.set()
        _join(endings)

    def _abort(self) -> list[threading.Thread]:
        """Begins to end all calls of all groups."""
        endings = [threading.Thread(target=one.abort, daemon=True)
                   for one in list(self._facades.values())]
        for ending in endings:
            ending.start()
        return endings

    def _open_store(self, epoch: int) -> Any:
        """One for the groups of this meeting alone, at rank 0: what an older one holds is of ranks
        that are gone. Errors: MeetAgain."""
        self._store = self._server = None
        address = ""
        timeout = datetime.timedelta(seconds=meeting_seconds())
        if self.session.rank == 0:
            host = os.environ.get(_HOST_VARIABLE) or "127.0.0.1"
            self._server = _dist.TCPStore(
                host, 0, is_master=True, wait_for_workers=False, timeout=timeout)
            address = json.dumps([host, self._server.port])
        host, port = json.loads(self.gather_texts(address)[0])
        store = self._server or _dist.TCPStore(
            host, port, is_master=False, wait_for_workers=False, timeout=timeout)
        return EndingStore(store, timeout, functools.partial(self._loss_of, epoch))

    def _loss_of(self, epoch: int) -> Optional[LockstepError]:
        """Why the meeting of `epoch` is over; None: it stands."""
        if self._epoch != epoch:
            return MeetAgain("a newer rendezvous has begun", Status.ABORTED)
        return self._lost

    def gather_texts(self, text: str) -> list[str]:
        """Those of all ranks. Collective. Errors: MeetAgain."""
        own = torch.tensor(list(text.encode()), dtype=torch.uint8)
        counts = self.session.all_gather(torch.tensor([own.numel()])).flatten().tolist()
        padded = torch.zeros(max(counts), dtype=torch.uint8)
        padded[: own.numel()] = own
        each = self.session.all_gather(padded)
        return [raw_bytes(row)[:count].decode() for row, count in zip(each, counts)]

    def _check_groups(self) -> None:
        """All ranks of a group have it, so that nobody waits for one that has not. Collective.
        Errors: Mismatch, on all ranks; MeetAgain."""
        own = {key: one.ranks for key, one in self._facades.items()}
        each = [json.loads(text) for text in self.gather_texts(json.dumps(own))]
        for rank, groups in enumerate(each):
            for key, ranks in groups.items():
                for other in ranks:
                    if each[other].get(key) != ranks:
                        raise Mismatch(
                            f"group {key} has ranks {ranks} on rank {rank}, but "
                            f"{each[other].get(key, 'does not exist')} on rank {other}: each rank "
                            "has to make the same groups in the same order. A replacement makes "
                            "only the groups that the program makes before its Job, so make all "
                            "groups before the Job", Status.MISMATCH)


def _join(threads: list[threading.Thread]) -> None:
    """Waits for them. Those that end calls may hang in a driver, and nothing but the end of this
    process helps then: another takes its place."""
    limit = time.monotonic() + _END_SECONDS
    for thread in threads:
        thread.join(max(0.0, limit - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        print(f"lockstep: the calls of a group did not end within {_END_SECONDS:g} s of the loss "
              f"of a rank. This process ends with {MeetAgain.exit_code}, and a new process takes "
              "its place", file=sys.stderr, flush=True)
        os._exit(MeetAgain.exit_code)


_control: Optional[Control] = None


def control() -> Control:
    """That of this process, which is made by the first call: it opens the session and meets, where
    no rank was replaced yet. Errors: NoJob, LockstepError, those of `meet`."""
    global _control
    if _control is None:
        _control = Control()
    return _control


def is_open() -> bool:
    """Whether this process has one."""
    return _control is not None
