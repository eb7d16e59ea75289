"""What a replacement's set-up is answered."""

import types
import unittest

import torch

from lockstep.errors import LockstepError
from lockstep.torch.groups.alone import answer_alone
from lockstep.torch.groups.facade import object_call

GROUP = types.SimpleNamespace(group_rank=1, group_size=3)


def all_gather_object(call):
    return call()


class Alone(unittest.TestCase):
    def test_others_are_taken_to_hold_the_same(self):
        own = torch.tensor([1.0, 2.0])
        for name in ("allreduce", "broadcast", "reduce"):
            answer_alone(GROUP, name, None, ([own], None))
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
        part = torch.zeros(2)
        answer_alone(GROUP, "reduce_scatter_single", None, (part, torch.arange(6.0), None))
        self.assertEqual(part.tolist(), [2, 3])
        answer_alone(GROUP, "reduce_scatter", None, (
            [part], [[torch.tensor([7.0, rank]) for rank in range(3)]], None))
        self.assertEqual(part.tolist(), [7, 1])

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
