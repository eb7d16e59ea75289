"""Samplers: each sample once in a data epoch, whoever reads, whenever it is cut off."""

import unittest

import torch

from lockstep.errors import Inexact, InvalidArgument
from lockstep.torch.sampler import Sampler, mix, permutation


def samplers(size, **arguments):
    made = [Sampler(**arguments) for _ in range(size)]
    for rank, sampler in enumerate(made):
        sampler.place(rank, size)
    return made


class Permutation(unittest.TestCase):
    def test_has_each_sample_once_and_depends_on_seed_and_epoch(self):
        orders = [permutation(seed, epoch, 1000) for seed, epoch in ((1, 0), (1, 1), (2, 0))]
        for order in orders:
            self.assertEqual(sorted(order.tolist()), list(range(1000)))
        self.assertEqual(len({tuple(order.tolist()) for order in orders}), 3)
        # Equal on every machine and release of torch: written down.
        self.assertEqual(permutation(7, 3, 8).tolist(), [2, 0, 1, 4, 7, 6, 3, 5])

    def test_mix_heeds_the_order(self):
        self.assertNotEqual(mix(1, 2), mix(2, 1))
        self.assertGreaterEqual(min(mix(number, -number) for number in range(100)), 0)


class Slices(unittest.TestCase):
    def test_ranks_read_each_sample_once_in_each_data_epoch(self):
        for size in (1, 2, 3, 7):
            for count, batch in ((100, 10), (101, 10), (5, 7), (1, 1)):
                ranks = samplers(size, sample_count=count, batch_size=batch, epochs=2, seed=1)
                for sampler in ranks:
                    self.assertEqual(len(list(sampler)), sampler.steps_total)
                used = []
                while not ranks[0].is_done:
                    sizes = [sampler.slice_size() for sampler in ranks]
                    self.assertLessEqual(max(sizes) - min(sizes), 1)
                    ids = [one for sampler in ranks for one in sampler.take_handed_out()]
                    self.assertEqual(len(ids), ranks[0].global_size())
                    used += ids
                    for sampler in ranks:
                        sampler.advance(torch.tensor(ids))
                for begin in (0, count):
                    self.assertEqual(sorted(used[begin : begin + count]), list(range(count)))
                self.assertEqual(ranks[0].totals(), (2 * count, 2 * count, 0, 0, 0))

    def test_a_rank_without_a_sample_has_one_that_does_not_count(self):
        sampler = Sampler(1, 1)
        sampler.place(0, 2)
        self.assertEqual(list(sampler), [[0]])
        self.assertEqual((sampler.take_handed_out(), sampler.slice_size()), ([], 0))


class Cursor(unittest.TestCase):
    def test_what_a_loader_reads_ahead_moves_nothing(self):
        sampler = Sampler(10, 4)
        self.assertEqual(len(list(sampler)), 3)
        self.assertEqual((sampler.position, len(sampler)), (0, 3))

    def test_another_sampler_goes_on_from_its_state(self):
        first = Sampler(10, 4, epochs=3, seed=5)
        batches = list(first)
        for step in range(4):
            first.advance(torch.tensor(batches[step]))
        second = Sampler(10, 4, epochs=3, seed=5)
        second.load_state_dict(first.state_dict())
        self.assertEqual(list(second), batches[4:])
        self.assertEqual(second.totals(), first.totals())
        with self.assertRaisesRegex(InvalidArgument, "^ledger: 10 samples found, expected .*, 11$"):
            Sampler(11, 4).load_state_dict(first.state_dict())


    def test_the_steps_left_are_counted_from_where_another_batch_size_has_ended(self):
        first = Sampler(10, 4, epochs=2)
        first.advance(torch.tensor(next(iter(first))))
        for batch_size, steps in ((5, 4), (3, 6), (7, 3), (4, 5)):
            second = Sampler(10, batch_size, epochs=2)
            second.load_state_dict(first.state_dict())
            self.assertEqual((len(second), len(list(second))), (steps, steps), batch_size)
        fewer = Sampler(10, 4, epochs=1)
        fewer.load_state_dict({**first.state_dict(), "data_epoch": 1, "position": 4})
        self.assertEqual((len(fewer), list(fewer)), (0, []))


class Ledger(unittest.TestCase):
    def test_a_batch_may_have_more_ids_than_a_counter_counts(self):
        count = 65_536
        sampler = Sampler(count, count, shuffle=False)
        sampler.advance(torch.arange(count))
        self.assertEqual(sampler.totals(), (count, count, 0, 0, 0))

    def test_a_sample_that_is_used_too_often_is_named_before_anything_is_counted(self):
        sampler = Sampler(4, 2, shuffle=False)
        sampler.check(torch.full((65_535,), 1))
        sampler.advance(torch.tensor([1]))
        with self.assertRaisesRegex(InvalidArgument, "sample 1 is used 65536 times"):
            sampler.advance(torch.tensor([0] + [1] * 65_535))
        self.assertEqual((sampler.position, sampler.totals().consumed), (2, 1))

    def test_lost_and_repeated_samples_are_told(self):
        sampler = Sampler(4, 2, shuffle=False)
        sampler.advance(torch.tensor([0, 0]))
        self.assertEqual(sampler.totals(), (2, 2, 1, 1, 0))
        sampler.advance(torch.tensor([2, 3]))
        self.assertEqual(sampler.totals(), (4, 4, 1, 1, 0))
        with self.assertRaisesRegex(Inexact, "4 samples used, 1 lost, 1 repeated"):
            sampler.check_end()

    def test_is_laid_out_as_the_built_in_trainers(self):
        sampler = Sampler(3, 2, shuffle=False)
        sampler.advance(torch.tensor([0, 1]))
        expected = b"LSLEDGR1" + b"".join(
            number.to_bytes(8, "little") for number in (3, 2, 0, 0, 0))
        self.assertEqual(sampler.ledger(), expected + b"\1\0\1\0\0\0")

    def test_ids_that_are_none_are_refused(self):
        with self.assertRaisesRegex(InvalidArgument, "found, expected numbers from 0 to 3"):
            Sampler(4, 2).advance(torch.tensor([4]))
        for arguments in ((0, 1), (1, 0)):
            with self.assertRaisesRegex(InvalidArgument, "expected a whole number from 1"):
                Sampler(*arguments)


if __name__ == "__main__":
    unittest.main()
