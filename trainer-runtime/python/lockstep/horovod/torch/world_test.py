"""Horovod's calls by ranks that are threads of this process."""

import contextlib
import io
import unittest
import unittest.mock

import torch

from lockstep.errors import Finished, InvalidArgument, MeetAgain, Mismatch, Status
from lockstep.fake_exchange import where_nobody_fails
from lockstep.horovod import fake_ranks, process
from lockstep.horovod import torch as hvd
from lockstep.horovod.fake_ranks import FakeRanks
from lockstep.horovod.torch import world as world_module
from lockstep.horovod.torch.world import Tensors


class FakeSession(fake_ranks.FakeSession):
    """On tensors."""

    def view(self, array):
        return array.numpy()

    def made(self, array):
        return torch.from_numpy(array)


def in_ranks(size, work):
    """Runs `work(rank)` on each; returns what they return or raise, by rank."""
    return fake_ranks.in_ranks(size, work, FakeSession, Tensors())


def results(size, work):
    """The same where nobody may fail."""
    return where_nobody_fails(in_ranks(size, work))


def own(rank, dtype=torch.float32):
    return (torch.arange(6).reshape(2, 3) + rank + 1).to(dtype)


class Reductions(unittest.TestCase):
    def test_every_operation_and_type(self):
        each = torch.stack([own(rank) for rank in range(3)])
        expected = {hvd.Average: each.mean(0), hvd.Sum: each.sum(0), hvd.Min: each[0],
                    hvd.Max: each[2], hvd.Product: each.prod(0)}
        for op, value in expected.items():
            for dtype in (torch.float32, torch.float64, torch.int64):
                if op is hvd.Average and dtype == torch.int64:
                    continue
                for found in results(3, lambda rank: hvd.allreduce(own(rank, dtype), op=op)):
                    self.assertEqual(found.dtype, dtype)
                    torch.testing.assert_close(found, value.to(dtype))

    def test_in_place_begun_and_scaled(self):
        def work(rank):
            first, second = own(rank), own(rank).t()  # the second does not lie side by side
            handles = [hvd.allreduce_async_(first, op=hvd.Sum, name="first"),
                       hvd.allreduce_async(second, op=hvd.Sum, name="second",
                                           prescale_factor=2.0, postscale_factor=0.25)]
            self.assertFalse(hvd.poll(handles[0]))
            returned = [hvd.synchronize(one) for one in handles]
            self.assertIs(returned[0], first)
            self.assertTrue(torch.equal(second, own(rank).t()))
            return first, returned[1], hvd.allreduce(own(rank), average=False)
        total = sum(own(rank) for rank in range(2))
        for first, second, third in results(2, work):
            torch.testing.assert_close(first, total)
            torch.testing.assert_close(second, total.t() / 2)
            torch.testing.assert_close(third, total)

    def test_groups_of_several_types_keep_their_order(self):
        def work(rank):
            tensors = [own(rank), own(rank, torch.int64), own(rank)[0] * 2]
            found = hvd.grouped_allreduce(tensors, op=hvd.Sum)
            hvd.grouped_allreduce_(tensors, op=hvd.Sum)
            return list(zip(found, tensors))
        expected = [own(0) + own(1), (own(0) + own(1)).to(torch.int64), (own(0) + own(1))[0] * 2]
        for pairs in results(2, work):
            for pair, value in zip(pairs, expected):
                torch.testing.assert_close(pair, (value, value))

    def test_compressed_they_come_back_as_what_they_were(self):
        for found in results(2, lambda rank: hvd.allreduce(
                own(rank) / 3, compression=hvd.Compression.fp16)):
            self.assertEqual(found.dtype, torch.float32)
            torch.testing.assert_close(found, (own(0) + own(1)) / 6, rtol=2e-3, atol=0)

    def test_gradients_go_back_through_means(self):
        def work(rank):
            tensor = own(rank).requires_grad_()
            hvd.allreduce(tensor, name="x").mul_(rank + 1).sum().backward()
            return tensor.grad
        for gradient in results(2, work):
            torch.testing.assert_close(gradient, torch.full((2, 3), 1.5))

    def test_rows_left_over_go_to_the_first_ranks(self):
        found = results(2, lambda rank: hvd.reducescatter(
            torch.arange(6.0).reshape(3, 2) + rank, op=hvd.Sum))
        self.assertEqual([one.tolist() for one in found],
                         [[[1.0, 3.0], [5.0, 7.0]], [[9.0, 11.0]]])


class Exchanges(unittest.TestCase):
    def test_rows_of_any_number_and_type(self):
        for dtype in (torch.float32, torch.bool, torch.int16):
            def work(rank, dtype=dtype):
                return hvd.allgather(torch.ones(rank, 2).to(dtype))
            for found in results(3, work):
                self.assertTrue(torch.equal(found, torch.ones(3, 2).to(dtype)), found)

    def test_broadcast_of_any_rank_in_place_and_not(self):
        def work(rank):
            kept, taken = own(rank), own(rank).t()
            copy = hvd.broadcast(kept, root_rank=1)
            hvd.broadcast_(taken, 2)
            return kept, copy, taken
        for rank, (kept, copy, taken) in enumerate(results(3, work)):
            self.assertTrue(torch.equal(kept, own(rank)))
            self.assertTrue(torch.equal(copy, own(1)))
            self.assertTrue(torch.equal(taken, own(2).t()))

    def test_all_to_all_with_and_without_splits(self):
        def work(rank):
            rows = torch.arange(4).reshape(4, 1) + 10 * rank
            halves = hvd.alltoall(rows)
            return halves.flatten().tolist(), *hvd.alltoall(rows, splits=[1, 3])
        found = results(2, work)
        self.assertEqual([one[0] for one in found], [[0, 1, 10, 11], [2, 3, 12, 13]])
        self.assertEqual([one[1].flatten().tolist() for one in found],
                         [[0, 10], [1, 2, 3, 11, 12, 13]])
        self.assertEqual([one[2].tolist() for one in found], [[1, 1], [3, 3]])

    def test_objects_and_states(self):
        def work(rank):
            model = torch.nn.Linear(2, 1)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (rank + 1))
            if rank == 0:
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
            hvd.broadcast_parameters(model.state_dict(), root_rank=0)
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            state = optimizer.state_dict()
            return (hvd.allgather_object({"rank": rank}), hvd.broadcast_object([rank], 1),
                    model.weight.tolist(), state["param_groups"][0]["lr"],
                    float(state["state"][0]["step"]), state["state"][0]["exp_avg"].tolist())
        found = results(2, work)
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0][:2], ([{"rank": 0}, {"rank": 1}], [1]))
        self.assertEqual(found[0][3:5], (0.1, 1.0))


class Agreement(unittest.TestCase):
    def both_fail(self, size, work, kind, words):
        """All ranks fail so, with these words; returns the errors."""
        found = in_ranks(size, work)
        for one in found:
            self.assertIsInstance(one, kind)
            self.assertRegex(str(one), words)
        return found

    def test_other_shapes_names_kinds_and_operations_are_told_on_all_ranks(self):
        def shapes(rank):
            hvd.allreduce(torch.zeros(3 + rank), name="x")
        self.both_fail(2, shapes, Mismatch,
                       r'rank 0 calls allreduce "x" of float32 \[3\], Average, '
                       r'rank 1 calls allreduce "x" of float32 \[4\]')

        def names(rank):
            hvd.allreduce_async(torch.zeros(3), name=f"x{rank}").wait()
        self.both_fail(3, names, Mismatch, '"x0".*rank 1 calls allreduce "x1"')

        def kinds(rank):
            if rank == 0:
                hvd.synchronize(hvd.allreduce_async(torch.zeros(3), name="x"))
            hvd.broadcast(torch.zeros(3), 0, name="x")
        self.both_fail(2, kinds, Mismatch, 'rank 1 calls broadcast "x" of float32')

        def roots(rank):
            hvd.broadcast_object(1, root_rank=rank, name="x")
        self.both_fail(2, roots, Mismatch, "from rank 0, rank 1 calls .* from rank 1")

    def test_after_a_mismatch_every_call_tells_of_it(self):
        def work(rank):
            with contextlib.suppress(Mismatch):
                hvd.allreduce(torch.zeros(3 + rank), name="x")
            hvd.barrier()
        self.both_fail(2, work, Mismatch,
                       r"barrier: not possible after an earlier error: .*float32 \[4\]")

    def test_who_joins_gives_zeros_until_all_have(self):
        def work(rank):
            sums = [hvd.allreduce(torch.tensor([1.0]), name=f"{step}", op=hvd.Sum).item()
                    for step in range(rank + 1)]
            means = [hvd.allreduce(torch.tensor([3.0]), name="mean").item()] if rank == 2 else []
            return sums, means, hvd.join()
        self.assertEqual(results(3, work), [([3], [], 2), ([3, 2], [], 2), ([3, 2, 1], [1], 2)])

    def test_the_last_that_joins_is_known_to_all(self):
        def work(rank):
            last = []
            for slow in (0, 1):
                if rank == slow:
                    hvd.allreduce(torch.ones(2), name="more")
                last.append(hvd.join())
            return last
        self.assertEqual(results(2, work), [[0, 1]] * 2)

    def test_what_is_not_finite_is_told_once_by_rank_0(self):
        def work(rank):
            for _ in range(2):
                hvd.allreduce(torch.full((3,), 3e4, dtype=torch.float16), name="large")
                hvd.allreduce(torch.tensor([1.0, float("inf")]), name="loss")
        with contextlib.redirect_stderr(io.StringIO()) as told:
            results(2, work)
        self.assertRegex(told.getvalue(), r'^lockstep: allreduce "loss" of float32 \[2\], Average: '
                                          "the result is not finite, after step 0; .*\n$")

    def test_what_joined_ranks_cannot_take_part_in_is_an_error_of_all(self):
        def work(rank):
            return hvd.join() if rank == 0 else hvd.allreduce(torch.ones(1), op=hvd.Min, name="x")
        self.both_fail(2, work, Mismatch, 'allreduce "x".*Min after rank 0 has called join')

    def test_whoever_shuts_down_ends_the_others_as_a_loss_does(self):
        def work(rank):
            here = process.current()
            if rank == 0:
                with self.assertRaisesRegex(
                        Mismatch, 'rank 0 has shut down while rank 1 calls allreduce "x"'):
                    here.leave(ends_well=True)
                return here._session.calls
            return hvd.allreduce(torch.ones(1), name="x")
        with contextlib.redirect_stderr(io.StringIO()) as told:
            calls, other = in_ranks(2, work)
        self.assertEqual(calls, ["close"])
        self.assertIsInstance(other, SystemExit)
        self.assertEqual(other.code, 75)
        self.assertIn('rank 0 is lost: shut down while rank 1 calls allreduce "x"',
                      told.getvalue())

    def test_all_that_end_well_finish_together_and_others_at_once(self):
        def work(rank):
            process.current().leave(ends_well=True)
            return process.current()._session.calls
        self.assertEqual(results(2, work), [["finish", "close"]] * 2)

        def badly(rank):
            process.current().leave(ends_well=False)
            return process.current()._session.calls
        self.assertEqual(results(1, badly), [["close"]])


class Refusals(unittest.TestCase):
    def refuses(self, words, call):
        found, = in_ranks(1, lambda rank: call())
        self.assertIsInstance(found, InvalidArgument)
        self.assertRegex(str(found), words)

    def test_are_by_name_with_what_was_expected(self):
        tensor, whole = torch.zeros(2, 2), torch.zeros(2, dtype=torch.int64)
        carried = torch.zeros(2, 2, requires_grad=True)
        for words, call in (
            ("op: Adasum found, expected one of Average", lambda: hvd.allreduce(
                tensor, op=hvd.Adasum)),
            ("op and average", lambda: hvd.allreduce(tensor, average=True, op=hvd.Sum)),
            ("process_set: 3 found", lambda: hvd.allreduce(tensor, process_set=3)),
            ("x: Average of torch.int64 found, expected Sum", lambda: hvd.allreduce(
                whole, name="x")),
            ("x: torch.int64 with a scale factor", lambda: hvd.allreduce(
                whole, name="x", op=hvd.Sum, prescale_factor=0.5)),
            ("x: list found, expected a tensor", lambda: hvd.allreduce([1.0], name="x")),
            ("x: torch.sparse_coo found", lambda: hvd.allreduce(tensor.to_sparse(), name="x")),
            ("x: torch.bool found, expected one of", lambda: hvd.allreduce(
                torch.zeros(2, dtype=torch.bool), name="x", op=hvd.Sum)),
            ("requires_grad=True", lambda: hvd.allgather(carried)),
            ("requires_grad=True", lambda: hvd.broadcast(carried, 0)),
            ("requires_grad=True", lambda: hvd.allreduce(carried, op=hvd.Max)),
            ("root_rank 1 found, expected 0 to 0", lambda: hvd.broadcast(tensor, 1)),
            (r"shape \[\] found", lambda: hvd.allgather(torch.tensor(1.0))),
            ("splits .* whose sum is 2", lambda: hvd.alltoall(tensor, splits=[3])),
            ("reducescatter.*Min found", lambda: hvd.reducescatter(tensor, op=hvd.Min)),
        ):
            with self.subTest(words):
                self.refuses(words, call)

    def test_of_the_start(self):
        for name in ("comm", "process_sets"):
            with self.assertRaisesRegex(InvalidArgument, f"{name}: .*expected None"):
                hvd.init(**{name: [0]})
        with self.assertRaisesRegex(InvalidArgument, "call hvd.init"):
            hvd.rank()
        self.assertFalse(hvd.is_initialized())
        hvd.shutdown()

    def test_names_that_are_not_offered_are_told_from_wrong_ones(self):
        with self.assertRaisesRegex(AttributeError, "SyncBatchNorm of Horovod"):
            hvd.SyncBatchNorm  # noqa: B018
        with self.assertRaisesRegex(AttributeError, "no attribute 'sizes'"):
            hvd.sizes  # noqa: B018
        self.assertFalse(hvd.nccl_built())
        for name in hvd.__all__:
            self.assertTrue(hasattr(hvd, name), name)


class Start(unittest.TestCase):
    def setUp(self):
        patch = unittest.mock.patch.object(process, "_has_finished", False)
        patch.start()
        self.addCleanup(patch.stop)

    def start(self, meet):
        """`init` with a session that meets so; returns it."""
        session = FakeSession(FakeRanks(1), 0)
        session.meet = meet or session.meet
        with unittest.mock.patch.object(world_module, "Session", lambda plan: session):
            hvd.init()
        self.addCleanup(hvd.shutdown)
        return session

    def test_is_once_and_gives_places(self):
        places = {"HOROVOD_LOCAL_RANK": "1", "HOROVOD_LOCAL_SIZE": "2", "HOROVOD_CROSS_RANK": "3",
                  "HOROVOD_CROSS_SIZE": "x"}
        with unittest.mock.patch.dict("os.environ", places):
            session = self.start(None)
            hvd.init()
            self.assertEqual((hvd.rank(), hvd.size(), hvd.is_initialized()), (0, 1, True))
            self.assertEqual((hvd.local_rank(), hvd.local_size(), hvd.cross_rank()), (1, 2, 3))
            with self.assertRaisesRegex(InvalidArgument, "HOROVOD_CROSS_SIZE: 'x' found"):
                hvd.cross_size()
        hvd.shutdown()
        hvd.shutdown()
        self.assertEqual((session.calls, hvd.is_initialized()), (["finish", "close"], False))
        with self.assertRaisesRegex(InvalidArgument, "init: called after shutdown, which ends"):
            hvd.init()

    def test_the_end_of_a_program_that_fails_waits_for_nobody(self):
        session = self.start(None)
        with self.assertRaises(ZeroDivisionError):
            try:
                print(1 / 0)
            finally:
                hvd.shutdown()
        self.assertEqual(session.calls, ["close"])

    def test_who_has_no_more_to_do_ends_with_its_code(self):
        for error, code in ((Finished("all are done"), 0),
                            (MeetAgain("rank 1 is missing", Status.TIMEOUT), 75)):
            def meet(has_state, step, error=error):
                raise error
            with contextlib.redirect_stderr(io.StringIO()) as told:
                with self.assertRaises(SystemExit) as end:
                    self.start(meet)
            self.assertEqual((end.exception.code, hvd.is_initialized()), (code, False))
            self.assertIn(str(error), told.getvalue())


if __name__ == "__main__":
    unittest.main()
