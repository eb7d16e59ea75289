"""When groups answer, and what their calls fail with, in a process that meets nobody."""

import datetime
import types
import unittest
import unittest.mock

import torch
import torch.distributed as dist

from lockstep.errors import LockstepError
from lockstep.torch.groups import control as module
from lockstep.torch.groups.control import Control
from lockstep.torch.groups.facade import GroupFacade
from lockstep.torch.groups.inner import GlooInner


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


if __name__ == "__main__":
    unittest.main()
