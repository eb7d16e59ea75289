"""What ends the waits of a meeting that is over."""

import datetime
import threading
import unittest

import torch
import torch.distributed as dist

from lockstep.errors import MeetAgain, Status
from lockstep.torch.groups.inner import EndingStore, GlooInner

# Far above what a wait here takes: a hang is a failure.
LONG = datetime.timedelta(seconds=60)


class Options:
    def __init__(self, rank):
        self.group_rank = rank
        self.group_size = 2
        self.timeout = datetime.timedelta(seconds=20)


def make_gloo(options, _):
    return dist.ProcessGroupGloo(
        options.store, options.group_rank, options.group_size, options.timeout)


class Gloo(unittest.TestCase):
    def setUp(self):
        store = dist.HashStore()
        other = Options(1)
        other.store = store

        def make_other():
            self.other = make_gloo(other, None)

        thread = threading.Thread(target=make_other)
        thread.start()
        self.inner = GlooInner()
        self.inner.form(make_gloo, Options(0), None, store, 0)
        thread.join()

    def test_an_abort_ends_a_wait_for_a_rank_that_lives(self):
        work = self.inner.backend.recv([torch.empty(1)], 1, 0)
        self.inner.abort()
        with self.assertRaises(RuntimeError) as caught:
            work.wait()
        self.assertNotRegex(str(caught.exception), "(?i)timed out")

    def test_an_abort_of_one_that_is_aborted_does_nothing(self):
        self.inner.abort()
        self.inner.abort()

    def test_an_abort_ends_the_wait_for_a_rank_that_was_lost_before_the_group_was_formed(self):
        is_making, is_over = threading.Event(), threading.Event()
        self.addCleanup(is_over.set)

        def wait_for_the_lost(options, _):
            is_making.set()
            is_over.wait()

        inner = GlooInner()

        def abort():
            is_making.wait()
            inner.abort()

        thread = threading.Thread(target=abort)
        thread.start()
        with self.assertRaisesRegex(dist.DistBackendError, "its rendezvous is over"):
            inner.form(wait_for_the_lost, Options(0), None, dist.HashStore(), 0)
        thread.join()

    def test_a_group_that_cannot_be_made_says_why(self):
        def fail(options, _):
            raise ValueError("no such device")

        with self.assertRaisesRegex(ValueError, "no such device"):
            GlooInner().form(fail, Options(0), None, dist.HashStore(), 0)


class Store(unittest.TestCase):
    def test_a_wait_ends_with_the_reason_why_the_meeting_is_over(self):
        lost = MeetAgain("rank 1 is lost", Status.LOST_PEER)
        store = EndingStore(dist.HashStore(), LONG, lambda: lost)
        with self.assertRaises(MeetAgain):
            store.get("never written")

    def test_what_is_written_is_found_though_the_meeting_is_over(self):
        inner = dist.HashStore()
        inner.set("key", "value")
        lost = MeetAgain("rank 1 is lost", Status.LOST_PEER)
        self.assertEqual(EndingStore(inner, LONG, lambda: lost).get("key"), b"value")

    def test_torch_reads_it_as_a_store(self):
        ending = EndingStore(dist.HashStore(), LONG, lambda: None)
        store = dist.PrefixStore("a", ending)
        store.set("key", "value")
        self.assertEqual(store.get("key"), b"value")
        self.assertEqual(store.add("count", 2), 2)
        self.assertTrue(store.check(["key"]))

    def test_a_wait_that_nobody_ends_has_a_limit(self):
        store = EndingStore(dist.HashStore(), datetime.timedelta(milliseconds=1), lambda: None)
        with self.assertRaisesRegex(RuntimeError, "no rank wrote key to the store within 0.001 s"):
            store.wait(["key"])


if __name__ == "__main__":
    unittest.main()
