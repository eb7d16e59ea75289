"""Copies of shards in other pods: when they count, and what becomes of them when a rank is lost."""

import threading
import unittest
import unittest.mock

import torch

from lockstep.errors import InvalidArgument, MeetAgain, Status
from lockstep.session import Member
from lockstep.torch.groups.copies import Copies, copies_for
from lockstep.torch.groups.models import Plain
from lockstep.torch.groups.shards import Sharded, ShardLost

# Far above what a call here takes: a hang is a failure.
LONG = 60.0


class Ranks:
    """Calls of several ranks, each in a thread of its own. `lost`: the call, by its number, in
    which the ranks among `deaf` hear that one is lost."""

    def __init__(self, size):
        self.size = size
        self.barrier = threading.Barrier(size)
        self.rows = [None] * size
        self.lost = None
        self.deaf = range(size)

    def exchange(self, rank, row, number):
        if number == self.lost and rank in self.deaf:
            self.barrier.wait(LONG)
            raise MeetAgain("rank 1 is lost", Status.LOST_PEER)
        self.rows[rank] = row
        self.barrier.wait(LONG)
        rows = list(self.rows)
        self.barrier.wait(LONG) if number != self.lost else None
        return rows


class RankSession:
    """That of one of them."""

    def __init__(self, ranks, rank):
        self.ranks = ranks
        self.rank = rank
        self.size = ranks.size
        self.call_count = 0

    def _exchange(self, row):
        self.call_count += 1
        return self.ranks.exchange(self.rank, row, self.call_count)

    def broadcast(self, tensor, root, timeout):
        tensor.copy_(self._exchange(tensor.clone())[root])

    def all_gather(self, tensor, timeout):
        return torch.stack(self._exchange(tensor))

    def barrier(self, timeout):
        self._exchange(None)


def members(steps):
    """By rank; None: it holds no state."""
    return tuple(Member(rank, step or 0, step is not None, 0, "host")
                 for rank, step in enumerate(steps))


class CopiesCase(unittest.TestCase):
    """Three ranks in three pods."""

    SIZE = 3

    def setUp(self):
        self.ranks = Ranks(self.SIZE)
        self.copies = [Copies(2, self.SIZE, 1) for _ in range(self.SIZE)]
        self.weights = [torch.full((2,), float(rank)) for rank in range(self.SIZE)]

    def on_all(self, call):
        """What `call(rank, session)` returns or raises on each rank, and how many calls of the
        session a rank made at most."""
        sessions = [RankSession(self.ranks, rank) for rank in range(self.SIZE)]
        found = [None] * self.SIZE

        def run(rank):
            try:
                found[rank] = call(rank, sessions[rank])
            except Exception as error:
                found[rank] = error

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(self.SIZE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        self.call_count = max(one.call_count for one in sessions)
        return found

    def take(self, step):
        def call(rank, session):
            self.copies[rank].take(session, step, {
                "step": step, "shard": {"weight": self.weights[rank] + step}}, LONG)

        return self.on_all(call)

    def agree(self, steps, has_left_loop=False):
        """What each rank makes of a meeting."""
        return self.on_all(lambda rank, session: self.copies[rank].agree(
            session, members(steps), has_left_loop, LONG))

    def kept(self):
        return [sorted(one._kept) for one in self.copies]

    def assert_lost(self, found, words):
        for error in found:
            self.assertIsInstance(error, ShardLost)
            self.assertRegex(str(error), words)


class Counting(CopiesCase):
    def test_a_copy_is_in_the_next_pod_and_changes_with_nothing(self):
        self.assertEqual(self.take(2), [None] * 3)
        for weight in self.weights:
            weight.add_(100)
        self.copies[1].own(2)["shard"]["weight"].add_(100)
        for rank, one in enumerate(self.copies):
            self.assertEqual(one.own(2)["shard"]["weight"].tolist(), [rank + 2.0] * 2)
            holder = self.copies[one.holder(rank)]
            self.assertEqual(holder.held(2)["weight"].tolist(), [rank + 2.0] * 2)
        self.assertEqual(self.agree([3, None, 3]), [2] * 3)

    def test_a_holder_is_in_another_pod_at_the_same_place(self):
        copies = Copies(1, 6, 2)
        self.assertEqual([copies.holder(rank) for rank in range(6)], [2, 3, 4, 5, 0, 1])

    def test_steps_at_which_a_copy_is_due(self):
        copies = Copies(3, 2, 1)
        self.assertEqual([step for step in range(8) if copies.is_due(step)], [3, 6])

    def test_a_loss_at_any_call_of_a_copy_leaves_the_one_before(self):
        self.take(2)
        self.take(4)
        calls_of_a_copy = self.call_count
        for number in range(1, calls_of_a_copy):
            self.ranks.lost = number
            self.assertIsInstance(self.take(6)[0], MeetAgain)
            self.ranks.lost = None
            self.assertEqual(self.kept(), [[4]] * 3)
            self.assertEqual(self.agree([6, None, 6]), [4] * 3)

    def test_one_counts_that_all_have_though_not_all_have_heard_of_it(self):
        self.take(2)
        self.take(4)
        self.ranks.lost, self.ranks.deaf = self.call_count, (0,)
        self.assertIsInstance(self.take(6)[0], MeetAgain)
        self.assertEqual(self.kept(), [[4, 6], [6], [6]])
        self.ranks.lost = None
        self.assertEqual(self.agree([6, None, 6]), [6] * 3)
        self.assertEqual(self.kept()[0], [6])

    def test_one_of_steps_that_are_repeated_is_forgotten(self):
        self.take(2)
        self.copies[0]._kept[4] = self.copies[0]._kept[2]  # and the others have none of it
        self.assertEqual(self.agree([4, None, 4]), [2] * 3)
        self.assertEqual(self.kept()[0], [2])


class Losing(CopiesCase):
    def test_a_rank_that_is_lost_with_its_holder_is_named(self):
        self.take(2)
        self.assert_lost(self.agree([3, None, None]),
                         "^the shard of rank 1 after step 3 is lost: rank 2, which had the copy of "
                         "it, is lost as well; the gang restarts from the program's checkpoint$")

    def test_a_rank_that_is_lost_with_one_that_is_not_its_holder_comes_back(self):
        copies = [Copies(2, 4, 1) for _ in range(4)]
        self.SIZE, self.copies, self.ranks = 4, copies, Ranks(4)
        self.weights = [torch.zeros(1)] * 4
        self.take(2)
        self.assertEqual(self.agree([3, None, 3, None]), [2] * 4)

    def test_no_copy_before_the_first_is_due(self):
        self.assert_lost(self.agree([1, None, 1]), "rank 1 after step 1 is lost: no copy was made "
                                                   "yet, as copy_every is 2")

    def test_ranks_that_have_left_the_loop_cannot_go_back(self):
        self.take(2)
        self.assert_lost(self.agree([3, None, 3], has_left_loop=True),
                         "the other ranks have left the loop")


class Refused(unittest.TestCase):
    """Where copies are of no use."""

    def sharded(self, shape, replicas):
        model = object.__new__(Sharded)
        model.size = shape[0] * shape[-1] if len(shape) > 1 else shape[0]
        model._ranks = torch.arange(model.size).reshape(shape)
        model._is_replica = replicas
        return model

    def check(self, every, model, words, processes="1"):
        with unittest.mock.patch.dict("os.environ", LOCKSTEP_PROCESSES=processes), \
                self.assertRaisesRegex(InvalidArgument, words):
            copies_for(every, model)

    def test_by_name_and_why(self):
        fsdp, hsdp = self.sharded((4,), [False]), self.sharded((2, 2), [True, False])
        for wrong in (0, -1, 1.5, "5"):
            self.check(wrong, fsdp, r"^copy_every: .* found, expected a whole number from 1")
        self.check(5, Plain(torch.nn.Linear(1, 1)),
                   "^copy_every: 5 found, but each rank holds the whole model")
        self.check(5, hsdp, "^copy_every: 5 found, but on this mesh other ranks hold the same")
        self.check(5, fsdp, "^copy_every: 5 found, but all 4 ranks are in one pod", "4")

    def test_none_are_made_where_nobody_has_asked(self):
        self.assertIsNone(copies_for(None, self.sharded((4,), [False])))

    def test_the_pod_says_how_many_ranks_it_has(self):
        with unittest.mock.patch.dict("os.environ", LOCKSTEP_PROCESSES="2"):
            self.assertEqual(copies_for(5, self.sharded((4,), [False])).holder(1), 3)


if __name__ == "__main__":
    unittest.main()
