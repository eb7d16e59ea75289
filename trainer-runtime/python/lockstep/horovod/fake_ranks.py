"""Ranks that are threads of this process, for tests of Horovod's calls."""

import threading
import unittest.mock

import numpy as np

from lockstep import errors
from lockstep.fake_exchange import FakeExchange, in_threads
from lockstep.horovod import process
from lockstep.horovod.world import World
from lockstep.library import Op
from lockstep.session import Meeting, Member

_REDUCE = {Op.SUM: np.sum, Op.MEAN: np.mean, Op.MIN: np.min, Op.MAX: np.max}


class FakeRanks(FakeExchange):
    """What sessions of one process exchange: arrays of NumPy's."""

    def __init__(self, size):
        super().__init__(size, np.stack)


class FakePending:
    """Carried out once somebody waits for it, or for what was begun later."""

    def __init__(self, session, work):
        self.session = session
        self.work = work

    def wait(self):
        return self.session.carry_out_until(self)

    def has_ended(self):
        return False


class FakeSession:
    """One rank's; as much of lockstep.Session as a World uses. Those of other arrays than NumPy's
    say how these look to NumPy, and what they make of one of NumPy's."""

    note_end = staticmethod(errors.note_end)

    def __init__(self, ranks, rank):
        self.ranks = ranks
        self.rank = rank
        self.size = ranks.size
        self.begun = []
        self.calls = []
        self.reports = []

    def view(self, array):
        return array

    def made(self, array):
        return array

    def meet(self, has_state, step):
        members = tuple(Member(rank, step, has_state, 0, "host") for rank in range(self.size))
        self.meeting = Meeting(1, self.rank, self.size, 0 if has_state else None, members)
        return self.meeting

    def begin_all_reduce(self, array, op, timeout):
        def work():
            each = self.ranks.exchange(self.rank, self.view(array))
            # As the library has it: whole numbers stay of their type.
            self.view(array)[...] = _REDUCE[op](each, axis=0).astype(each.dtype)
            return array
        self.begun.append(FakePending(self, work))
        return self.begun[-1]

    def carry_out_until(self, pending):
        while True:
            one = self.begun.pop(0)
            result = one.work()
            if one is pending:
                return result

    def all_reduce(self, array, op, timeout):
        return self.begin_all_reduce(array, op, timeout).wait()

    def all_gather(self, array, timeout):
        return self.made(self.ranks.exchange(self.rank, self.view(array)))

    def broadcast(self, array, root, timeout):
        self.view(array)[...] = self.ranks.exchange(self.rank, self.view(array))[root]

    def report(self, progress):
        self.reports.append(progress.step)

    def finish(self, timeout):
        self.calls.append("finish")
        self.ranks.barrier.wait()

    def close(self):
        self.calls.append("close")


class WorldOfThread:
    """Stands for the process's world: each thread has its own."""

    def __init__(self):
        object.__setattr__(self, "local", threading.local())

    def __getattr__(self, name):
        return getattr(self.local.world, name)

    def __setattr__(self, name, value):
        setattr(self.local.world, name, value)


def in_ranks(size, work, session_class, arrays):
    """Runs `work(rank)` on each; returns what they return or raise, by rank."""
    ranks = FakeRanks(size)
    standing = WorldOfThread()

    def run(rank):
        standing.local.world = World(session_class(ranks, rank), arrays, 30.0)
        standing.meet(has_state=False)
        return work(rank)

    with unittest.mock.patch.object(process, "_world", standing), \
            unittest.mock.patch.object(errors, "_end", None):
        return in_threads(size, run)
