"""Who saves what at which end, on sessions without peers."""

import os
import pathlib
import tempfile
import unittest
import unittest.mock

import torch

from lockstep.errors import MeetAgain, NotSaved, Status, Stopped, StoppedUnsaved
from lockstep.library import Leave
from lockstep.session import Meeting, Member, Progress
from lockstep.torch.checkpoint import CheckpointStore
from lockstep.torch.checkpoint_files import CheckpointFiles, Manifest, Writer
from lockstep.torch.keeper import Keeper, Snapshot
from lockstep.torch.state import flatten

STEP = 7
CHIEF = 40  # its incarnation
LOST = MeetAgain("rank 0 was lost", Status.LOST_PEER)
ASKED = Stopped("this process was asked to stop", Status.STOPPED)
DISK_FULL = OSError(28, "No space left on device")


class FakeSession:
    """Of rank `rank` of 2, whose chief is lost in a broadcast where `loses` says so."""

    def __init__(self, rank, should_save=True, loses=False, chief_said=None):
        self.rank = rank
        members = (Member(0, STEP, True, CHIEF, "host"), Member(1, STEP, True, 41, "host"))
        self.meeting = Meeting(3, rank, 2, 0, members)
        self.should_save = lambda: should_save
        self.loses = loses
        self.chief_said = chief_said
        self.calls = []

    def broadcast_state(self, state, root, timeout):
        self.calls.append("broadcast")
        if self.loses:
            raise LOST
        return state if self.rank == root else self.chief_said

    def barrier(self, timeout):
        self.calls.append("barrier")
        raise LOST  # one that has heard it leaves


class Stops(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name) / "checkpoints"
        self.directory.mkdir()
        self.words = pathlib.Path(scratch.name) / "last-words"
        for patch in (
                unittest.mock.patch.dict(os.environ, {
                    "LOCKSTEP_TERMINATION_MESSAGE_FILE": str(self.words),
                    "LOCKSTEP_JOB_UID": "job", "LOCKSTEP_ATTEMPT": "1"}),
                unittest.mock.patch(
                    "lockstep.torch.keeper.broadcast_state",
                    lambda session, *rest: session.broadcast_state(*rest))):
            patch.start()
            self.addCleanup(patch.stop)

    def keeper(self, session, has_store=True):
        def snapshot():
            manifest = Manifest(
                step=STEP, data_epoch=0, position=0, samples_consumed=0, seed=0, world_size=2,
                fingerprint={})
            return Snapshot(flatten({"step": STEP, "weight": torch.ones(3)}), manifest)

        store = CheckpointStore(self.directory, 3) if has_store else None
        return Keeper(store, session, snapshot, lambda: Progress(step=STEP, steps_total=20))

    def claim_as_chief(self, epoch=3, incarnation=CHIEF):
        """As the chief of the meeting has done it."""
        store = CheckpointStore(self.directory, 3)
        store.claim(Writer("job", 1, epoch, incarnation))
        return store

    def saved(self):
        return sorted(path.name for path in self.directory.glob("step-*"))

    def full_disk(self):
        return unittest.mock.patch.multiple(
            CheckpointFiles, claim=unittest.mock.Mock(side_effect=DISK_FULL),
            write=unittest.mock.Mock(side_effect=DISK_FULL))

    def stop(self, keeper, leave=Leave.TOGETHER):
        with self.assertRaises(Stopped) as end:
            keeper.stop(leave, 1.0)
        return end.exception

    def stop_without(self, keeper):
        with self.assertRaises(Stopped) as end:
            keeper.stop_without(ASKED)
        return end.exception

    def test_whoever_is_left_of_a_broken_gang_saves_in_the_name_of_its_chief(self):
        self.claim_as_chief()
        end = self.stop_without(self.keeper(FakeSession(1)))
        self.assertEqual((type(end), str(end)), (Stopped, "asked to stop after 7 steps"))
        self.assertEqual(self.saved(), ["step-00000007"])
        chief = Writer("job", 1, 3, CHIEF)
        self.assertTrue(CheckpointStore(self.directory, 3).has_saved(STEP, chief))

    def test_the_chief_saves_where_another_is_lost(self):
        keeper = self.keeper(FakeSession(0))
        keeper.claim()
        self.assertIs(type(self.stop_without(keeper)), Stopped)
        self.assertEqual(self.saved(), ["step-00000007"])

    def test_whoever_is_not_the_first_leaves_it_to_the_lower_one(self):
        self.claim_as_chief()
        end = self.stop_without(self.keeper(FakeSession(1, should_save=False)))
        self.assertEqual((type(end), str(end)),
                         (Stopped, "asked to stop after 7 steps, and a lower rank saves them"))
        self.assertEqual((self.saved(), self.words.exists()), ([], False))

    def test_what_the_chief_has_written_is_not_written_again(self):
        store = self.claim_as_chief()
        store.save_async(*self.keeper(FakeSession(1))._snapshot())
        store.flush()
        with self.full_disk():
            self.assertIs(type(self.stop_without(self.keeper(FakeSession(1)))), Stopped)
        # Of the same step, but of another attempt's: its weights may be others.
        for writer in (Writer("job", 0, 3, CHIEF), Writer("other", 1, 3, CHIEF)):
            self.assertFalse(store.has_saved(STEP, writer))
        (self.directory / "step-00000007/manifest.json").write_text("{}")
        self.assertFalse(store.has_saved(STEP, Writer("job", 1, 3, CHIEF)))

    def test_a_broken_gang_that_cannot_be_saved_says_what_is_lost(self):
        self.claim_as_chief()
        with self.full_disk():
            end = self.stop_without(self.keeper(FakeSession(1)))
        self.assertEqual((type(end), end.exit_code), (StoppedUnsaved, 143))
        self.assertRegex(
            str(end), "^asked to stop after 7 steps, but they are not saved: No space left .*; ")
        self.assertIn("No space left", self.words.read_text())

    def test_what_a_stop_could_not_save_is_not_tried_again_on_the_way_out(self):
        self.claim_as_chief()
        keeper = self.keeper(FakeSession(1))
        with self.full_disk():
            self.stop_without(keeper)
        self.assertFalse(keeper.is_behind)

    def test_a_new_chief_without_room_goes_on_and_tries_again(self):
        keeper = self.keeper(FakeSession(0))
        with self.full_disk():
            keeper.claim()
            self.assertRegex(str(keeper.save()), "No space left.*; free space there")
        self.assertEqual(keeper.store.counts, (0, 1))
        self.assertIs(type(self.stop(keeper)), Stopped)
        self.assertEqual(self.saved(), ["step-00000007"])

    def test_a_folder_that_is_gone_is_not_made_again_by_who_is_left(self):
        self.directory.rmdir()
        for rank in (0, 1):
            keeper = self.keeper(FakeSession(rank))
            keeper.claim()
            end = self.stop_without(keeper)
            self.assertRegex(str(end), "but they are not saved: No such file.*; restore what was")
        self.assertFalse(self.directory.exists())

    def test_an_end_that_the_chief_cannot_save_is_one_for_all(self):
        with self.assertRaisesRegex(NotSaved, "^training ended after 7 steps, .*: No space left$"):
            self.keeper(FakeSession(1, chief_said="No space left")).save_at_end(False, 1.0)
        self.assertFalse(self.words.exists())  # the chief's are enough

    def test_a_first_chief_without_room_does_not_train(self):
        session = FakeSession(0)
        session.meeting = session.meeting._replace(state_source=None)
        with self.full_disk(), self.assertRaisesRegex(OSError, "No space left.*; free space there"):
            self.keeper(session).claim()

    def test_a_later_chief_is_not_disturbed(self):
        self.claim_as_chief(epoch=4)
        end = self.stop_without(self.keeper(FakeSession(1)))
        self.assertEqual((type(end), self.saved()), (StoppedUnsaved, []))
        self.assertIn("is now written by", str(end))

    def test_a_job_that_saves_nothing_stops_without(self):
        for end in (self.stop_without(self.keeper(FakeSession(1), has_store=False)),
                    self.stop(self.keeper(FakeSession(1), has_store=False))):
            self.assertEqual((type(end), str(end)), (Stopped, "asked to stop after 7 steps"))

    def test_all_wait_for_the_chief_and_hear_how_it_went(self):
        session = FakeSession(1)
        self.assertIs(type(self.stop(self.keeper(session))), Stopped)
        self.assertEqual(session.calls, ["broadcast", "barrier"])
        end = self.stop(self.keeper(FakeSession(1, chief_said="No space left")))
        self.assertEqual(type(end), StoppedUnsaved)
        self.assertEqual(
            str(end), "asked to stop after 7 steps, but rank 0 could not save them: No space left")
        self.assertFalse(self.words.exists())  # the chief's are enough
        session = FakeSession(0)
        keeper = self.keeper(session)
        keeper.claim()
        with self.full_disk():
            self.assertIs(type(self.stop(keeper)), StoppedUnsaved)
        self.assertEqual(session.calls, ["broadcast", "barrier"])

    def test_a_chief_that_is_lost_while_it_writes_has_a_successor_in_that(self):
        self.claim_as_chief()
        self.assertIs(type(self.stop(self.keeper(FakeSession(1, loses=True)))), Stopped)
        self.assertEqual(self.saved(), ["step-00000007"])

    def test_who_leaves_alone_waits_for_nobody(self):
        for rank in (0, 1):
            session = FakeSession(rank)
            keeper = self.keeper(session)
            keeper.claim()
            self.assertIs(type(self.stop(keeper, Leave.ALONE)), Stopped)
            self.assertEqual(session.calls, [])
        self.assertEqual(self.saved(), ["step-00000007"])


if __name__ == "__main__":
    unittest.main()
