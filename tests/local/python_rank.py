"""One rank of tests of the package `lockstep`: the first argument says what it does. It ends with 0
when all came out as it should."""

import os
import signal
import sys
import threading
import time
import unittest

import numpy as np

import lockstep
import lockstep.numpy

TYPES = ["uint8", "int32", "int64", "float16", "float32", "float64"]
SHORT = 1.0  # of calls that are to fail by their limit
PATIENCE = 30.0


class Rank(unittest.TestCase):
    """Assertions, and one part a method."""

    def met(self, session):
        session.meet(has_state=False, step=0, timeout=PATIENCE)
        return session

    def leave(self, session):
        session.finish(PATIENCE)
        session.close()

    def fails(self, expected, words, call, *arguments, **named):
        """The call fails so, with these words in its sentence; returns the exception."""
        with self.assertRaises(expected) as raised:
            call(*arguments, **named)
        self.assertIn(words, str(raised.exception))
        return raised.exception

    def collectives(self):
        session = self.met(lockstep.numpy.open(plan="collectives"))
        rank, size = session.rank, session.size
        self.assertIsNone(session.meeting.state_source)
        self.assertEqual([member.rank for member in session.meeting.members], list(range(size)))
        for name in TYPES:
            own = np.arange(12, dtype=name).reshape(3, 4) + np.array(rank, name)
            each = np.stack([own - rank + one for one in range(size)]).astype(name)
            for op, expected in (("sum", each.sum(0)), ("min", each.min(0)), ("max", each.max(0))):
                found = session.all_reduce(own.copy(), op)
                np.testing.assert_array_equal(found, expected.astype(name))
            np.testing.assert_array_equal(session.all_gather(own), each)
            np.testing.assert_array_equal(
                session.reduce_scatter(each), each[rank].astype(name) * np.array(size, name))
            got = own.copy()
            session.broadcast(got, root=1)
            np.testing.assert_array_equal(got, each[1])
        np.testing.assert_allclose(
            session.all_reduce(np.full(3, float(rank)), "mean"), np.full(3, (size - 1) / 2))
        self.assertEqual(session.all_gather(np.array(float(rank))).shape, (size,))
        self.assertEqual(session.all_reduce(np.zeros((0, 3))).shape, (0, 3))
        session.barrier()
        self.leave(session)

    def begun(self):
        session = self.met(lockstep.numpy.open())
        pending = [session.begin_all_reduce(np.full(1000, float(k))) for k in range(20)]
        for k, one in enumerate(pending):
            self.assertEqual(one.wait()[0], k * session.size)
        self.fails(lockstep.InvalidArgument, "", pending[0].wait)
        # Nobody waits for these: their arrays must outlive them, and the next meeting ends them.
        for _ in range(3):
            session.begin_all_reduce(np.zeros(1 << 16))
        session.barrier()
        self.met(session)
        self.assertEqual(session._pending, {})
        self.leave(session)

    def arguments(self):
        session = lockstep.numpy.open()
        self.fails(lockstep.LockstepError, "call meet first", lambda: session.rank)
        error = self.fails(lockstep.LockstepError, "meet", session.all_reduce, np.zeros(3))
        self.assertEqual(error.status, lockstep.Status.NOT_MET)
        self.met(session)
        wrong = lockstep.InvalidArgument
        reduce = session.all_reduce
        self.fails(wrong, "list found, expected an ndarray", reduce, [1.0])
        self.fails(wrong, "dtype <U1 found", reduce, np.array(["a"]))
        self.fails(wrong, "byte order", reduce, np.zeros(3, ">f4"))
        self.fails(wrong, "not contiguous", reduce, np.zeros((4, 4))[:, 1:3])
        frozen = np.zeros(3)
        frozen.flags.writeable = False
        self.fails(wrong, "read-only", reduce, frozen)
        self.fails(wrong, "'product' found, expected one of sum", reduce, np.zeros(3), "product")
        self.fails(wrong, "a mean of int32", reduce, np.zeros(3, "int32"), "mean")
        self.fails(wrong, "timeout: 0 found", reduce, np.zeros(3), timeout=0)
        self.fails(wrong, "no rank 9", session.broadcast, np.zeros(3), root=9)
        self.fails(wrong, "a block for each rank", session.reduce_scatter, np.zeros((7, 2)))
        self.fails(wrong, "step: -4 found", session.report, lockstep.Progress(step=-4))
        session.report(lockstep.Progress(step=7))
        session.report(lockstep.Progress(step=7, phase=lockstep.Phase.EVALUATING))
        self.fails(wrong, "step: 6 found, expected 7 or more", session.report,
                   lockstep.Progress(step=6))
        self.met(session)
        session.report(lockstep.Progress(step=6))
        self.fails(wrong, "accuracy: inf", session.report,
                   lockstep.Progress(step=8, accuracy=float("inf")))
        error = self.fails(lockstep.LockstepError, "close it first", lockstep.numpy.open)
        self.assertEqual(error.status, lockstep.Status.ALREADY_OPEN)
        reduce(np.zeros(3))  # the others heard nothing of it
        self.leave(session)
        session.close()
        error = self.fails(lockstep.LockstepError, "", reduce, np.zeros(3))
        self.assertEqual(error.status, lockstep.Status.CLOSED)

    def mismatch(self):
        session = self.met(lockstep.numpy.open())
        count = 3 if session.rank == 0 else 4
        self.fails(lockstep.Mismatch, "", session.all_reduce, np.zeros(count), timeout=PATIENCE)
        shape = [2, 3] if session.rank == 0 else [3, 2]
        kind = "int32" if session.rank == 0 else "float32"
        for call, array in (
                (session.all_reduce, np.zeros(shape)),
                (session.all_gather, np.zeros(shape)),
                (lambda array: session.begin_all_reduce(array).wait(), np.zeros(shape)),
                (lambda array: session.broadcast(array, 1), np.zeros(shape)),
                (lambda array: session.broadcast(array, 1), np.zeros(6, kind))):
            self.met(session)
            error = self.fails(lockstep.Mismatch, "disagree on the type or shape", call, array)
            self.assertRegex(str(error), "rank 0 called .*; rank 1 called|"
                             "rank 1 called .*; rank 0 called")
            self.assertIn(f"; here {array.dtype.name} {list(array.shape)}", str(error))
        self.leave(self.met(session))

    def swallow(self):
        """All ranks call different things, catch it, and end as if all were well."""
        session = self.met(lockstep.numpy.open())
        self.fails(lockstep.Mismatch, "", session.all_reduce, np.zeros(3 + session.rank))
        session.report(lockstep.Progress(step=1))

    def end_before_the_plan(self):
        """All ranks have told of 8 steps, and end after 3 without `finish`."""
        session = self.met(lockstep.numpy.open())
        for step in range(1, 4):
            session.all_reduce(np.zeros(3))
            session.report(lockstep.Progress(step, steps_total=8))
        session.close()

    def silent(self):
        """Rank 0 never calls."""
        session = self.met(lockstep.numpy.open())
        if session.rank == 0:
            time.sleep(3 * SHORT)
        else:
            self.fails(lockstep.MeetAgain, "", session.all_reduce, np.zeros(3), timeout=SHORT)
        self.met(session)
        self.leave(session)

    def fork(self):
        session = self.met(lockstep.numpy.open())
        child = os.fork()
        if child == 0:
            try:
                session.all_reduce(np.zeros(3))
            except lockstep.Forked:
                os._exit(7)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        session.all_reduce(np.zeros(3))
        self.leave(session)

    def abort(self):
        """Rank 1 while it waits for rank 0, who comes too late."""
        session = self.met(lockstep.numpy.open())
        if session.rank == 1:
            threading.Timer(0.3, session.abort, ["changed my mind"]).start()
        elif session.rank == 0:
            time.sleep(SHORT)
        self.fails(lockstep.MeetAgain, "changed my mind", session.barrier, PATIENCE)
        self.met(session)
        self.leave(session)

    def interrupted(self):
        """Ctrl-C on rank 1 while it waits for rank 0, who never comes; then in a meeting."""
        session = self.met(lockstep.numpy.open())
        if session.rank == 1:
            for wait in (session.barrier, lambda: session.meet(False, 0)):
                timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
                begin = time.monotonic()
                with self.assertRaises(KeyboardInterrupt):
                    wait()
                self.assertLess(time.monotonic() - begin, PATIENCE)
                timer.join()
        else:
            time.sleep(2)
        self.met(session)
        self.leave(session)
        self.assertEqual(signal.set_wakeup_fd(-1), -1)

    def ends(self):
        """What `run` makes of the ends that a process is told of."""
        for end, code in ((lockstep.Stopped, 42), (lockstep.Superseded, 76),
                          (lockstep.Finished, 0), (lockstep.MeetAgain, 75)):
            def work(end=end):
                raise end("told so")
            with self.assertRaises(SystemExit) as ended:
                lockstep.run(work)
            self.assertEqual(ended.exception.code, code)
        with self.assertRaises(ZeroDivisionError):
            lockstep.run(lambda: 1 / 0)
        self.leave(self.met(lockstep.numpy.open()))


def leave_early(leaver):
    """One rank has a step less than the others."""
    session = lockstep.numpy.open()
    session.meet(has_state=False, step=0, timeout=PATIENCE)
    for _ in range(3 if session.rank == leaver else 4):
        session.all_reduce(np.ones(4, "float32"))


def die_when_done():
    """All work is done; rank 0 is killed before it has closed its session, and rank 1 after it."""
    session = lockstep.numpy.open()
    session.meet(has_state=False, step=0, timeout=PATIENCE)
    print(f"process {os.getpid()} has begun", flush=True)
    session.all_reduce(np.ones(4, "float32"))
    session.finish(PATIENCE)
    if session.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    session.close()
    if session.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "leave_early":
        lockstep.run(lambda: leave_early(int(sys.argv[2])))
    if sys.argv[1] == "die_when_done":
        lockstep.run(die_when_done)
    result = unittest.TextTestRunner(stream=sys.stderr).run(Rank(sys.argv[1]))
    sys.exit(0 if result.wasSuccessful() else 1)
