"""Horovod's calls on arrays, by ranks that are threads of this process."""

import contextlib
import io
import unittest

import numpy as np

from lockstep.errors import InvalidArgument, Mismatch
from lockstep.fake_exchange import where_nobody_fails
from lockstep.horovod import arguments, fake_ranks, host, objects
from lockstep.horovod.arguments import Reduction
from lockstep.session import Progress


def in_ranks(size, work):
    """Runs `work(rank)` on each; returns what they return or raise, by rank."""
    return fake_ranks.in_ranks(size, work, fake_ranks.FakeSession, host.NumpyArrays())


def results(size, work):
    """The same where nobody may fail."""
    return where_nobody_fails(in_ranks(size, work))


def own(rank, dtype=np.float32):
    return (np.arange(6).reshape(2, 3) + rank + 1).astype(dtype)


class Reductions(unittest.TestCase):
    def test_every_operation_and_type_leaves_what_was_given(self):
        each = np.stack([own(rank) for rank in range(3)])
        expected = {arguments.Average: each.mean(0), arguments.Sum: each.sum(0),
                    arguments.Min: each[0], arguments.Max: each[2],
                    arguments.Product: each.prod(0)}
        for op, value in expected.items():
            for dtype in (np.float32, np.float64, np.float16, np.int64):
                if op is arguments.Average and dtype is np.int64:
                    continue

                def work(rank, op=op, dtype=dtype):
                    given = own(rank, dtype)
                    given.setflags(write=False)  # as TensorFlow gives them
                    found, = host.reduce([given], Reduction(op), None)
                    return found
                for found in results(3, work):
                    self.assertEqual(found.dtype, dtype)
                    np.testing.assert_allclose(found, value.astype(dtype))

    def test_groups_of_several_types_and_shapes_keep_their_order(self):
        def work(rank):
            return host.reduce(
                [own(rank), own(rank, np.int64), own(rank)[0] * 2, np.float32(rank).reshape(())],
                Reduction(arguments.Sum), "group")
        total = own(0) + own(1)
        for found in results(2, work):
            for one, value in zip(found, [total, total.astype(np.int64), total[0] * 2, 1.0]):
                np.testing.assert_array_equal(one, value)
                self.assertEqual(one.shape, np.shape(value))

    def test_what_is_not_finite_is_told_once_by_rank_0(self):
        def work(rank):
            for step in range(3):
                bad = np.float32(np.nan if rank == 1 and step > 0 else 1)
                host.reduce([np.full(4, bad)], Reduction(), "loss")
                host.reduce([np.arange(4)], Reduction(arguments.Sum), "count")
                host.world().report_step()
            overflow = np.full(4, 3e4, np.float16)
            host.reduce([overflow], Reduction(arguments.Max), "large")
        with contextlib.redirect_stderr(io.StringIO()) as told:
            results(2, work)
        self.assertRegex(told.getvalue(), r'^lockstep: allreduce "loss" of float32 \[4\], Average: '
                                          "the result is not finite, after step 1; .*\n$")

    def test_steps_that_are_shown_grow_whoever_counts_them(self):
        def work(rank):
            host.world().report(Progress(step=101))  # an optimizer's, from its backup on
            host.world().report_step()
            host.world().meet(has_state=True)
            host.world().report_step()
            return host.world()._session.reports
        self.assertEqual(results(1, work), [[101, 101, 2]])

    def test_scales_come_before_and_after(self):
        def work(rank):
            return host.reduce([own(rank)], Reduction(arguments.Sum, 2.0, 0.25), None)[0]
        for found in results(2, work):
            np.testing.assert_allclose(found, (own(0) + own(1)) / 2)

    def test_whole_numbers_have_no_average_and_no_scales(self):
        for reduction in (Reduction(), Reduction(arguments.Sum, 0.5)):
            with self.assertRaisesRegex(
                    InvalidArgument, "x: (Average of int64|int64 with a scale factor) found"):
                reduction.check("int64", False, "x")
        Reduction(arguments.Sum).check("int64", False, "x")

    def test_types_that_the_library_has_not_are_refused(self):
        found, = in_ranks(1, lambda rank: host.reduce(
            [np.zeros(2, np.int16)], Reduction(arguments.Sum), "x"))
        self.assertIsInstance(found, InvalidArgument)
        self.assertIn("x: dtype", str(found))

    def test_other_shapes_and_orders_are_told_on_all_ranks(self):
        def shapes(rank):
            host.reduce([np.zeros(3 + rank, np.float32)], Reduction(), "x")

        def orders(rank):
            pair = [np.zeros(3, np.float32), np.zeros((3, 1), np.float32)]
            host.reduce(pair if rank else pair[::-1], Reduction(), "x")
        for work, words in ((shapes, r"float32 \[3\], Average.*float32 \[4\], Average"),
                            (orders, r"float32 \[6\] of 2, Average, plan")):
            for error in in_ranks(2, work):
                self.assertIsInstance(error, Mismatch)
                self.assertRegex(str(error), words)

    def test_who_joins_gives_zeros(self):
        def work(rank):
            if rank == 0:
                return host.world().join()
            return host.reduce([np.ones(2, np.float32)], Reduction(), "x")[0].tolist(), \
                host.world().join()
        self.assertEqual(results(2, work), [1, ([0.5, 0.5], 1)])


class Exchanges(unittest.TestCase):
    def test_rows_of_any_number_and_type(self):
        for dtype in (np.float32, np.bool_, np.int16):
            def work(rank, dtype=dtype):
                return host.gather_rows(np.ones((rank, 2), dtype), None)
            for found in results(3, work):
                np.testing.assert_array_equal(found, np.ones((3, 2), dtype))
                self.assertEqual(found.dtype, dtype)
        spread, = results(1, lambda rank: host.gather_rows(np.arange(6)[::2], None))
        self.assertEqual(spread.tolist(), [0, 2, 4])
        for shape in ((), (2, 0)):
            found, = in_ranks(1, lambda rank, shape=shape: host.gather_rows(np.ones(shape), "x"))
            self.assertRegex(str(found), r"x: shape \[.*\] found, expected rows")

    def test_broadcast_of_several_of_any_type_in_one_call(self):
        def work(rank):
            mine = own(rank)
            given = [mine, np.array(rank), np.array([], np.float32), mine.T, mine > 3]
            return host.broadcast(given, 1, None)
        for found in results(3, work):
            expected = [own(1), np.array(1), np.array([]), own(1).T, own(1) > 3]
            for one, value in zip(found, expected):
                np.testing.assert_array_equal(one, value)
        self.assertEqual(results(2, lambda rank: host.broadcast([], 0, None)), [[], []])

    def test_strings_and_objects_are_refused_by_what_cannot_move_them(self):
        calls = {"broadcast": lambda array: host.broadcast([own(0), array], 0, "x"),
                 "allgather": lambda array: host.gather_rows(array, "x"),
                 "alltoall": lambda array: host.all_to_all(array, None, "x")}
        for word, value in (("object", np.array([b"abc"], object)), ("bytes24", np.array([b"abc"])),
                            ("str96", np.array(["abc"]))):
            for kind, call in calls.items():
                found, = in_ranks(1, lambda rank, call=call, value=value: call(value))
                self.assertIsInstance(found, InvalidArgument)
                self.assertEqual(
                    str(found), f"x: {kind} of {word} found, expected numbers or bool: "
                    "for other objects use broadcast_object or allgather_object")

    def test_broadcast_of_other_variables_is_told(self):
        for error in in_ranks(2, lambda rank: host.broadcast([own(0)] * (1 + rank), 0, "x")):
            self.assertIsInstance(error, Mismatch)

    def test_all_to_all_with_and_without_splits(self):
        def work(rank):
            rows = np.arange(4).reshape(4, 1) + 10 * rank
            received, counts = host.all_to_all(rows, np.array([1, 3]), None)
            return (host.all_to_all(rows, None, None)[0].ravel().tolist(),
                    received.ravel().tolist(), counts.tolist())
        self.assertEqual(results(2, work), [([0, 1, 10, 11], [0, 10], [1, 1]),
                                            ([2, 3, 12, 13], [1, 2, 3, 11, 12, 13], [3, 3])])

    def test_splits_that_are_none_are_refused(self):
        for splits in ([3], [1, 1], [5, -1]):
            for found in in_ranks(2, lambda rank, splits=splits: host.all_to_all(
                    np.zeros((4, 1)), np.array(splits), "x")):
                self.assertRegex(str(found), "x: splits .* whose sum is 4")
        for found in in_ranks(2, lambda rank: host.all_to_all(np.zeros((3, 1)), None, "x")):
            self.assertRegex(str(found), "x: 3 rows found, expected a multiple of 2")

    def test_rows_left_over_go_to_the_first_ranks(self):
        found = results(2, lambda rank: host.own_rows(np.arange(3)).tolist())
        self.assertEqual(found, [[0, 1], [2]])

    def test_objects(self):
        def work(rank):
            return objects.allgather_object({"rank": rank}), objects.broadcast_object([rank], 1)
        self.assertEqual(results(2, work), [([{"rank": 0}, {"rank": 1}], [1])] * 2)


if __name__ == "__main__":
    unittest.main()
