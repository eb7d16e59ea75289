"""What a replacement's set-up is answered."""

import types
import unittest

import torch
import torch.distributed as dist

from lockstep.errors import InvalidArgument, LockstepError
from lockstep.torch.groups.alone import answer_alone
from lockstep.torch.groups.facade import object_call

GROUP = types.SimpleNamespace(group_rank=1, group_size=3)


def options(kind, op):
    made = kind()
    made.reduceOp = op
    return made


def all_gather_object(call):
    return call()


class Alone(unittest.TestCase):
    def test_others_are_taken_to_hold_the_same(self):
        own = torch.tensor([1.0, 2.0])
        answer_alone(GROUP, "broadcast", None, ([own], None))
        self.assertEqual(own.tolist(), [1, 2])
        blocks = [torch.zeros(2) for _ in range(3)]
        answer_alone(GROUP, "allgather", None, ([blocks], [own], None))
        self.assertEqual([block.tolist() for block in blocks], [[1, 2]] * 3)
        lists = [[torch.zeros(2), torch.zeros(1)] for _ in range(3)]
        answer_alone(GROUP, "allgather_coalesced", None, (lists, [own, torch.tensor([5.0])], None))
        self.assertEqual([[part.tolist() for part in each] for each in lists], [[[1, 2], [5]]] * 3)
        whole = torch.zeros(6)
        answer_alone(GROUP, "all_gather_single", None, (whole, own, None))
        self.assertEqual(whole.tolist(), [1, 2] * 3)

    def reduced(self, op, values=(1.0, 2.0), dtype=torch.float32):
        """What `values` have become by all-reduce on three ranks, and by three more calls."""
        own = torch.tensor(values, dtype=dtype)
        answer_alone(GROUP, "allreduce", None, ([own], options(dist.AllreduceOptions, op)))
        coalesced = [torch.tensor([value], dtype=dtype) for value in values]
        answer_alone(GROUP, "allreduce_coalesced", None, (
            coalesced, options(dist.distributed_c10d.AllreduceCoalescedOptions, op)))
        scattering = options(dist.ReduceScatterOptions, op)
        part = torch.zeros(len(values), dtype=dtype)
        whole = torch.tensor([*[value - value for value in values], *values,
                              *[value - value for value in values]], dtype=dtype)
        answer_alone(GROUP, "reduce_scatter_single", None, (part, whole, scattering))
        block = torch.zeros(len(values), dtype=dtype)
        answer_alone(GROUP, "reduce_scatter", None, (
            [block], [list(whole.split(len(values)))], scattering))
        self.assertEqual(torch.cat(coalesced).tolist(), own.tolist())
        self.assertEqual(part.tolist(), own.tolist())
        self.assertEqual(block.tolist(), own.tolist())
        return own.tolist()

    def test_a_sum_is_that_of_all_ranks_and_so_its_mean_is_right(self):
        self.assertEqual(self.reduced(dist.ReduceOp.SUM), [3, 6])
        self.assertEqual(self.reduced(dist.ReduceOp.SUM, (1, 2), torch.int64), [3, 6])
        self.assertEqual(self.reduced(dist.ReduceOp.SUM, (True, False), torch.bool), [True, False])
        self.assertEqual(self.reduced(dist._make_nccl_premul_sum(0.5)), [1.5, 3])

    def test_other_reductions_of_equal_values_are_this_value(self):
        for op in (dist.ReduceOp.AVG, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
            self.assertEqual(self.reduced(op), [1, 2])
        for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR):
            self.assertEqual(self.reduced(op, (5, 2), torch.int64), [5, 2])

    def test_a_sum_for_one_rank_is_on_that_rank_alone(self):
        for root, expected in ((0, [1.0]), (1, [3.0])):
            own = torch.tensor([1.0])
            reducing = options(dist.ReduceOptions, dist.ReduceOp.SUM)
            reducing.rootRank = root
            answer_alone(GROUP, "reduce", None, ([own], reducing))
            self.assertEqual(own.tolist(), expected)

    def test_reductions_without_a_known_answer_are_refused_by_name(self):
        for op, name in ((dist.ReduceOp.PRODUCT, "PRODUCT"), (dist.ReduceOp.BXOR, "BXOR")):
            with self.assertRaisesRegex(InvalidArgument, f"^{name}: a process that replaces"):
                answer_alone(GROUP, "allreduce", None, (
                    [torch.ones(1)], options(dist.AllreduceOptions, op)))

    def test_what_only_others_have_is_refused_by_the_name_of_the_call(self):
        for name in ("gather", "scatter", "alltoall", "all_to_all_single", "send", "recv"):
            with self.assertRaisesRegex(LockstepError, f"^{name}: called by a process that "
                                                       "replaces"):
                answer_alone(GROUP, name, None, ())
        with self.assertRaisesRegex(LockstepError, "^all_gather_object: called by a process"):
            answer_alone(GROUP, "allgather", "all_gather_object", ())

    def test_calls_for_objects_are_told_by_whoever_makes_them(self):
        self.assertEqual(all_gather_object(object_call), "all_gather_object")
        self.assertIsNone(object_call())


if __name__ == "__main__":
    unittest.main()
