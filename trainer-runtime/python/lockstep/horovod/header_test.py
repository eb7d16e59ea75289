"""What ranks tell each other before a call, and what follows from it."""

import re
import unittest

from lockstep.errors import MeetAgain, Mismatch, Status
from lockstep.horovod.header import HEADER_BYTES, Call, Kind, agree, decode
from lockstep.library import DataType, Op


def reduction(name="loss", what="float32 [10], Average", op=Op.MEAN, count=10):
    return Call(Kind.ALLREDUCE, name, what, op, DataType.FLOAT32, elements=count)


def headers(*calls):
    return [decode(call.encode()) for call in calls]


JOIN, SHUTDOWN = Call(Kind.JOIN), Call(Kind.SHUTDOWN)


class Headers(unittest.TestCase):
    def test_come_back_as_they_were_told(self):
        for call in (reduction(), JOIN, SHUTDOWN, Call(Kind.BARRIER),
                     Call(Kind.BROADCAST, "weight", "float32 [3]", root=2, length=12)):
            self.assertEqual(len(call.encode()), HEADER_BYTES)
            found = decode(call.encode())
            self.assertEqual(
                (found.kind, found.op, found.data_type, found.root, found.elements, found.length),
                (call.kind, call.op, call.data_type, call.root, call.elements, call.length))
            self.assertEqual(found.text, str(call))

    def test_a_text_that_is_too_long_ends_in_dots_and_still_tells_names_apart(self):
        one, other = (reduction("x" * 300 + end) for end in "ab")
        self.assertEqual(len(one.encode()), HEADER_BYTES)
        self.assertTrue(decode(one.encode()).text.endswith("..."))
        with self.assertRaises(Mismatch):
            agree(headers(one, other))

    def test_equal_calls_go_together_whatever_each_rank_gives(self):
        rows = [Call(Kind.ALLGATHER, "rows", "float32 [any, 3]", length=n) for n in (0, 12, 24)]
        found = agree(headers(*rows))
        self.assertEqual([one.length for one in found.headers], [0, 12, 24])
        self.assertEqual((found.joined, found.call.kind), (frozenset(), Kind.ALLGATHER))

    def test_calls_that_differ_are_named_with_their_ranks(self):
        for other in (reduction(name="accuracy"), reduction(what="float32 [11], Average", count=11),
                      reduction(op=Op.SUM, what="float32 [10], Sum"), Call(Kind.BARRIER),
                      Call(Kind.BROADCAST, "loss", "float32 [10]", root=0)):
            with self.assertRaises(Mismatch) as raised:
                agree(headers(reduction(), reduction(), other))
            self.assertEqual(raised.exception.status, Status.MISMATCH)
            self.assertEqual(
                str(raised.exception),
                f'rank 0 calls allreduce "loss" of float32 [10], Average, rank 2 calls {other}: '
                "all ranks must make the same calls in the same order")

    def test_those_that_have_joined_take_part_in_sums_and_means_only(self):
        found = agree(headers(JOIN, reduction(), JOIN))
        self.assertEqual((found.joined, found.call.elements), (frozenset({0, 2}), 10))
        self.assertIsNone(agree(headers(JOIN, JOIN)).call)
        for other in (reduction(op=Op.MIN), Call(Kind.BARRIER), Call(Kind.ALLGATHER, "x")):
            with self.assertRaisesRegex(
                    Mismatch, f"rank 1 calls {re.escape(str(other))}.*rank 0 has called join"):
                agree(headers(JOIN, other))

    def test_whoever_has_shut_down_is_lost_to_the_others(self):
        for other in (reduction(), JOIN):
            called = re.escape(f"rank 0 calls {other}")
            with self.assertRaisesRegex(MeetAgain, f"rank 1 is lost: shut down while {called}"):
                agree(headers(other, SHUTDOWN))
        self.assertEqual(agree(headers(SHUTDOWN, SHUTDOWN)).call.kind, Kind.SHUTDOWN)


if __name__ == "__main__":
    unittest.main()
