"""When groups answer, and what their calls fail with, in a process that meets nobody."""

import contextlib
import datetime
import io
import threading
import types
import unittest
import unittest.mock

import torch
import torch.distributed as dist

from lockstep.errors import LockstepError, MeetAgain, Status
from lockstep.session import Meeting, Member
from lockstep.torch.gradients import LeftLoop
from lockstep.torch.groups import control as module
from lockstep.torch.groups.control import Control, GroupsSession
from lockstep.torch.groups.facade import GroupFacade
from lockstep.torch.groups.inner import GlooInner, Inner

LOST = MeetAgain("rank 1 is lost", Status.LOST_PEER)


class FakeSession:
    """That of the only rank."""

    def __init__(self, control, catch_stop):
        self.rank, self.size = 0, 1
        self.meeting = types.SimpleNamespace(epoch=3)
        self.losses = []
        self.aborts = []

    def all_gather(self, tensor):
        return torch.stack([tensor])

    def await_loss(self, epoch, timeout):
        return self.losses[0] if self.losses else None

    def abort(self, reason):
        self.aborts.append(reason)


def make_gloo(options, _):
    return dist.ProcessGroupGloo(
        options.store, options.group_rank, options.group_size, options.timeout)


class ControlCase(unittest.TestCase):
    """A replacement's, in its set-up."""

    def setUp(self):
        with unittest.mock.patch.multiple(
                module, GroupsSession=FakeSession, is_replacement=lambda: True):
            self.control = Control()
        self.addCleanup(self.control.end_watch)

    def group(self, make=make_gloo, inner_type=GlooInner):
        options = types.SimpleNamespace(
            group_rank=0, group_size=1, group_id="0", global_ranks_in_group=[0],
            timeout=datetime.timedelta(seconds=20))
        made = GroupFacade(self.control, "gloo", inner_type, make, options, None)
        self.control.add(made)
        return made

    def sum(self, group, value=1.0):
        """Of all ranks of `group`."""
        tensor = torch.tensor([value])
        group.allreduce([tensor], dist.AllreduceOptions()).wait()
        return tensor.item()


class Silence(ControlCase):
    def test_a_group_answers_alone_until_the_first_meeting_and_never_between_two(self):
        group = self.group()
        self.assertEqual(self.sum(group), 1)
        self.control.leave()
        with self.assertRaisesRegex(LockstepError, "^allreduce: called while the ranks join"):
            self.sum(group)
        self.control.form()
        self.assertEqual(self.sum(group), 1)
        self.control.leave()
        with self.assertRaisesRegex(LockstepError, "^allreduce: called while the ranks join"):
            self.sum(group)

    def test_a_call_that_may_not_be_made_says_why(self):
        group = self.group()
        with self.control.silent("called by somebody"):
            with self.assertRaisesRegex(LockstepError, "^allreduce: called by somebody"):
                self.sum(group)
        self.assertEqual(self.sum(group), 1)


class FakeWork:
    """A call that fails, or whose result fails."""

    def wait(self):
        raise RuntimeError("a connection was closed")

    def get_future(self):
        future = torch.futures.Future()
        future.set_exception(RuntimeError("a connection was closed"))
        return future


class FakeBackend:
    """One whose calls fail as `how` says."""

    def __init__(self, how):
        self.how = how
        self.error = torch._C._distributed_c10d.ErrorType.SUCCESS

    def allreduce(self, tensors, options):
        if self.how == "call":
            raise RuntimeError("a connection was closed")
        return FakeWork()

    def get_error(self):
        return self.error

    def abort(self):
        pass


@unittest.mock.patch.object(module, "_CONFIRM_SECONDS", 0)
class Failures(ControlCase):
    def test_a_call_that_failed_is_known_though_the_program_has_caught_the_error(self):
        for how in ("call", "wait", "future"):
            backend = FakeBackend(how)
            group = self.group(lambda *_: backend, Inner)
            self.control.form()
            self.assertIsNone(self.control.failure())
            with self.assertRaisesRegex(RuntimeError, "a connection was closed"):
                work = group.allreduce([torch.ones(1)], dist.AllreduceOptions())
                work.get_future().wait() if how == "future" else work.wait()
            self.assertEqual(
                self.control.failure(), "allreduce failed: a connection was closed")
            self.control.leave()
            self.assertIsNone(self.control.failure())
            self.control.forget(group)

    def test_an_error_that_only_the_backend_knows_is_asked_for(self):
        backend = FakeBackend("call")
        self.group(lambda *_: backend, Inner)
        self.control.form()
        backend.error = torch._C._distributed_c10d.ErrorType.COMM_ERROR
        self.assertEqual(self.control.failure(), "group 0/gloo has failed: COMM_ERROR")

    def test_gloo_knows_of_none(self):
        self.group()
        self.control.form()
        self.assertIsNone(self.control.failure())


class Ends(ControlCase):
    def test_calls_that_cannot_be_ended_end_the_process(self):
        is_over = threading.Event()
        self.addCleanup(is_over.set)
        backend = FakeBackend("wait")
        backend.abort = is_over.wait
        self.group(lambda *_: backend, Inner)
        self.control.form()
        with unittest.mock.patch.multiple(module, _END_SECONDS=0.01), unittest.mock.patch.object(
                module.os, "_exit") as end, contextlib.redirect_stderr(io.StringIO()) as words:
            self.control.leave()
        end.assert_called_once_with(75)
        self.assertIn("did not end within 0.01 s of the loss of a rank", words.getvalue())

    def test_a_rank_that_is_lost_while_groups_are_formed_holds_nobody(self):
        is_making, is_over = threading.Event(), threading.Event()
        self.addCleanup(is_over.set)

        def wait_for_the_lost(options, _):
            is_making.set()
            is_over.wait()

        self.group(wait_for_the_lost)

        def lose():
            is_making.wait()
            self.control.session.losses.append(LOST)

        thread = threading.Thread(target=lose)
        thread.start()
        with self.assertRaises(MeetAgain) as caught:
            self.control.form()
        self.assertIs(caught.exception, LOST)
        thread.join()


class Places(unittest.TestCase):
    """What ranks of a meeting tell each other."""

    def meet(self, places, steps):
        """That of the last rank of `places`. `steps`: of the ranks; None: it holds no state."""
        session = object.__new__(GroupsSession)
        session._handle = types.SimpleNamespace(value=None)
        session._control = unittest.mock.Mock()
        session._is_handed_on = True
        session.has_left_loop = places[-1] == module._LEAVING
        members = tuple(Member(rank, step or 0, step is not None, 0, "host")
                        for rank, step in enumerate(steps))
        found = Meeting(1, 0, len(places), 0, members)
        with unittest.mock.patch.object(module.Session, "meet", lambda *_: found), \
                unittest.mock.patch.object(
                    GroupsSession, "_places", lambda _, own: [*places[:-1], own]):
            return session.meet(True, 3)

    def test_a_rank_that_has_left_the_loop_is_named_in_the_next_meeting_by_all(self):
        for places in ([2, 1, 1], [1, 2, 2]):
            with self.assertRaises(LeftLoop) as caught:
                self.meet(places, [3] * 3)
            leaving = [rank for rank, place in enumerate(places) if place == 2]
            self.assertEqual(caught.exception.leaving, leaving)
            self.assertEqual(sorted(leaving + caught.exception.staying), [0, 1, 2])

    def test_ranks_that_leave_together_meet_one_that_replaces_another(self):
        self.assertEqual(self.meet([2, 1, 2], [3, None, 3]).size, 3)
        self.assertEqual(self.meet([1, 1, 1], [3, None, 3]).size, 3)

    def test_ranks_that_leave_together_meet_one_that_did_not_hear_of_their_last_step(self):
        self.assertEqual(self.meet([2, 1, 2], [3, 2, 3]).size, 3)


if __name__ == "__main__":
    unittest.main()
