"""The process group of torch.distributed on a session without peers: when it is opened and left."""

import contextlib
import io
import pathlib
import subprocess
import sys
import unittest
import unittest.mock

import torch
import torch.distributed as dist

from lockstep.errors import Finished, InvalidArgument, MeetAgain, Status
from lockstep.session import Meeting
from lockstep.torch import distributed


class FakeSession:
    """That of the only rank, or one of two for who asks for another rank."""

    size = 1
    is_alone_at_end = False
    error = None  # of a meeting

    def __init__(self, plan):
        self.rank = 0
        self.calls = []

    def meet(self, has_state, step, timeout):
        if self.error is not None:
            raise self.error
        return Meeting(1, 0, self.size, None, ())

    def all_reduce(self, tensor, op, timeout):
        return tensor

    def finish(self, timeout):
        self.calls.append("finish")
        if self.is_alone_at_end:
            raise MeetAgain("rank 1 is lost", Status.LOST_PEER)

    def close(self):
        self.calls.append("close")


class Group(unittest.TestCase):
    def setUp(self):
        self.sessions = []
        self.kind = type("Kind", (FakeSession,), {})
        patch = unittest.mock.patch.object(distributed, "Session", self.open)
        patch.start()
        self.addCleanup(patch.stop)
        unfinished = unittest.mock.patch.object(distributed, "_has_finished", False)
        unfinished.start()
        self.addCleanup(unfinished.stop)
        self.addCleanup(self.destroy_what_is_left)

    def open(self, plan):
        self.sessions.append(self.kind(plan))
        return self.sessions[-1]

    def init(self):
        dist.init_process_group("lockstep", store=dist.HashStore(), rank=0, world_size=1)
        return self.sessions[-1]

    def destroy_what_is_left(self):
        if dist.is_initialized():
            dist.destroy_process_group()

    def test_its_end_is_that_of_the_session(self):
        for destroy in (dist.destroy_process_group,
                        dist.distributed_c10d.destroy_process_group,
                        lambda: dist.destroy_process_group(dist.GroupMember.WORLD)):
            with unittest.mock.patch.object(distributed, "_has_finished", False):
                session = self.init()
                dist.all_reduce(torch.zeros(1))
                self.assertEqual(session.calls, [])
                destroy()
            self.assertEqual(session.calls, ["finish", "close"])

    def test_a_loss_ends_the_process_from_the_midst_of_torchs_code_too(self):
        script = (
            "import sys\n"
            "from lockstep.torch import distributed\n"
            "try:\n"
            "    distributed._end(75)\n"
            "except SystemExit as end:\n"
            "    raise RuntimeError(f'SystemExit: {end}') from None\n")
        package = pathlib.Path(distributed.__file__).parents[2]
        ended = subprocess.run([sys.executable, "-c", script], cwd=package, timeout=120,
                               capture_output=True, text=True)
        self.assertEqual((ended.returncode, ended.stderr), (75, ""))

    def test_there_is_no_other_after_it(self):
        self.init()
        dist.destroy_process_group()
        with self.assertRaisesRegex(InvalidArgument, "called after destroy_process_group"):
            self.init()
        self.assertEqual(len(self.sessions), 1)

    def test_on_the_way_of_an_exception_it_waits_for_nobody(self):
        session = self.init()
        with self.assertRaises(ZeroDivisionError):
            try:
                print(1 / 0)
            finally:
                dist.destroy_process_group()
        self.assertEqual(session.calls, ["close"])
        self.assertEqual(self.init().calls, [])  # nobody has said that all is done

    def test_others_that_are_lost_at_the_end_are_told_and_no_error(self):
        self.kind.is_alone_at_end = True
        session = self.init()
        with contextlib.redirect_stderr(io.StringIO()) as told:
            dist.destroy_process_group()
        self.assertIn("rank 1 is lost", told.getvalue())
        self.assertEqual(session.calls, ["finish", "close"])

    def test_other_groups_are_gloos_and_have_no_part_in_its_session(self):
        session = self.init()
        group = dist.new_group([0])
        total = torch.ones(1)
        dist.all_reduce(total, group=group)
        dist.destroy_process_group(group)
        self.assertEqual((len(self.sessions), session.calls), (1, []))

    def test_a_release_whose_groups_have_no_names_says_so(self):
        self.init()
        group = dist.distributed_c10d._get_default_group()
        with unittest.mock.patch.object(group, "_is_whole", False):
            with self.assertRaisesRegex(InvalidArgument, "group_name: torch .* found, expected"):
                group.group_name

    def test_a_group_that_does_not_come_to_be_leaves_no_session(self):
        self.kind.error = MeetAgain("rank 1 did not come", Status.TIMEOUT)
        with self.assertRaisesRegex(MeetAgain, "rank 1 did not come"):
            self.init()
        self.kind.error, self.kind.size = None, 2
        with self.assertRaisesRegex(InvalidArgument, "rank 0 of 1 found, expected 0 of 2"):
            self.init()
        self.assertEqual([session.calls for session in self.sessions], [["close"]] * 2)

    def test_who_has_no_more_to_do_ends_with_its_code(self):
        self.kind.error = Finished("all others have finished", Status.FINISHED)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            with self.assertRaises(SystemExit) as end:
                self.init()
        self.assertEqual((end.exception.code, self.sessions[0].calls), (0, ["close"]))
        self.assertIn("all others have finished", told.getvalue())


if __name__ == "__main__":
    unittest.main()
