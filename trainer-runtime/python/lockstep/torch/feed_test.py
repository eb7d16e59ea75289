"""What is seen of batches, and what loaders that drop, repeat or swap them are told."""

import collections
import contextlib
import io
import unittest
import unittest.mock

import torch
from torch.utils.data import DataLoader, TensorDataset

from lockstep.errors import InvalidArgument, LockstepError
from lockstep.torch import feed
from lockstep.torch.feed import Feed, check_begins_anew, keeps_order, sizes_of
from lockstep.torch.sampler import Sampler

COUNT = 24  # samples, in batches of 4


def loader_of(sampler, workers=0, **options):
    data = TensorDataset(torch.arange(float(COUNT)), torch.arange(float(COUNT)).reshape(COUNT, 1))
    return DataLoader(data, batch_sampler=sampler, num_workers=workers, **options)


def drops(loader):
    for number, batch in enumerate(loader):
        if number != 2:
            yield batch


def repeats(loader):
    for number, batch in enumerate(loader):
        yield from [batch] * (2 if number == 2 else 1)


def swaps(loader):
    held = None
    for number, batch in enumerate(loader):
        if number == 2:
            held = batch
        else:
            yield batch
            if number == 3:
                yield held


def drops_and_repeats(loader):
    for number, batch in enumerate(loader):
        if number != 3:
            yield from [batch] * (2 if number == 2 else 1)


def moves(loader):
    """What a generator around a loader is mostly for."""
    for inputs, labels in loader:
        yield inputs * 2, labels


def is_late(loader):
    """Yields the first batch twice, and the last never."""
    before = None
    for batch in loader:
        yield batch if before is None else before
        before = batch


class Use(unittest.TestCase):
    def use(self, wrap=lambda loader: loader, workers=0, **options):
        """The totals, once all batches were used; each step is applied."""
        sampler = Sampler(COUNT, 4, shuffle=False)
        passed = Feed(wrap(loader_of(sampler, workers, **options)), sampler)
        step = 0
        while not sampler.is_done:
            step += 1
            _, drawn = passed.next(step)
            sampler.advance(torch.tensor(drawn.ids), drawn.unseen_count)
        return sampler.totals()

    def test_a_loader_of_torch_is_seen_also_where_workers_read_ahead(self):
        for workers in (0, 2):
            with self.subTest(workers):
                self.assertEqual(self.use(workers=workers), (COUNT, COUNT, 0, 0, 0))
        self.assertEqual(str(self.use()), "24 samples used, 0 lost, 0 repeated")

    def test_batches_of_a_generator_around_a_loader_are_not_seen(self):
        for wrap, workers in ((moves, 0), (moves, 2), (is_late, 0)):
            with self.subTest(wrap.__name__, workers=workers):
                found = self.use(wrap, workers)
                self.assertEqual((found.lost, found.repeated, found.unseen), (None, None, COUNT))
                self.assertEqual(str(found), "24 samples drawn; it is not known whether the steps "
                                 "used 24 of them")

    def test_a_batch_whose_fields_have_different_sizes_is_not_seen(self):
        def keep_all_names(samples):
            kept = torch.utils.data.default_collate(samples[1:])
            return (*kept, [str(sample) for sample in samples])

        self.assertEqual(self.use(collate_fn=keep_all_names).unseen, COUNT)

    def test_batches_that_are_dropped_are_an_error_at_the_latest_at_the_end(self):
        for workers in (0, 2):
            with self.subTest(workers), self.assertRaisesRegex(
                    LockstepError, "^step 6: the loader ended after 5 of 6 batches, and "
                    "drew 6 from the sampler: .*must not drop or repeat"):
                self.use(drops, workers)

    def test_batches_that_are_repeated_are_an_error_or_not_seen(self):
        with self.assertRaisesRegex(LockstepError, "^step 4: the loader yielded 4 batches, and "
                                    "drew 3 from the sampler: "):
            self.use(repeats)
        self.assertEqual(self.use(repeats, workers=2).lost, None)

    def test_batches_that_are_swapped_are_not_seen(self):
        for workers in (0, 2):
            self.assertEqual(self.use(swaps, workers).lost, None)

    def test_a_batch_that_is_dropped_for_one_that_is_repeated_is_no_loss_of_0(self):
        with self.assertRaisesRegex(LockstepError, "^step 4: the loader yielded 4 batches"):
            self.use(drops_and_repeats)
        self.assertEqual(self.use(drops_and_repeats, workers=2).lost, None)

    def words_of(self, collate):
        """The warning about batches that are made by `collate`, all of which count as not seen."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), unittest.mock.patch.object(feed, "_has_told", False):
            self.assertEqual(self.use(collate_fn=collate).unseen, COUNT)
        self.assertEqual(said.getvalue().count("\n"), 1)
        return said.getvalue()

    def test_a_collate_fn_that_drops_samples_is_told_once_and_nothing_is_claimed(self):
        def drop_odd(samples):
            return torch.utils.data.default_collate(
                [sample for sample in samples if sample[0] % 4 != 3])

        self.assertRegex(self.words_of(drop_odd), "^lockstep: step 1: the batch has 3 rows, and "
                         "the sampler gave 4 samples, so the job does not see .*If a collate_fn "
                         "drops samples, remove them from the dataset instead")

    def test_honest_batches_with_other_rows_than_samples_are_not_refused(self):
        def put_time_first(samples):
            return torch.nn.utils.rnn.pad_sequence([torch.ones(3) for _ in samples])

        def pack(samples):
            return torch.cat([sample[1] for sample in samples])[None]

        def pack_into_two_rows(samples):
            values = torch.cat([sample[1] for sample in samples]).reshape(2, -1)
            return values, torch.zeros(2)

        def pair(samples):
            return torch.cat([sample[1] for sample in samples] * 2), torch.zeros(2 * len(samples))

        for collate, rows in ((put_time_first, 3), (pack, 1), (pack_into_two_rows, 2), (pair, 8)):
            with self.subTest(collate.__name__):
                self.assertIn(f"the batch has {rows} rows, and the ", self.words_of(collate))
        self.assertIn("the batch has no rows, and the ", self.words_of(lambda samples: "text"))

    def test_a_loader_that_knows_no_sampler_is_refused(self):
        for loader in ([torch.zeros(4)], iter([])):
            with self.assertRaisesRegex(LockstepError, "batch_sampler=job.sampler"):
                Feed(loader, Sampler(COUNT, 4)).next(1)


class Order(unittest.TestCase):
    def test_only_a_loader_of_this_sampler_that_yields_in_order_keeps_it(self):
        class Shuffles(DataLoader):
            def __iter__(self):
                return iter(list(super().__iter__())[::-1])

        sampler = Sampler(COUNT, 4)
        data = TensorDataset(torch.zeros(COUNT))
        loose = loader_of(sampler)
        loose.in_order = False
        for is_kept, loader in (
                (True, loader_of(sampler)), (True, DataLoader(data, None, sampler=sampler)),
                (False, loader_of(Sampler(COUNT, 4))), (False, loose),
                (False, Shuffles(data, batch_sampler=sampler)), (False, [])):
            self.assertEqual(keeps_order(loader, sampler), is_kept)


class Anew(unittest.TestCase):
    def test_what_yields_its_batches_only_once_is_refused(self):
        sampler = Sampler(COUNT, 4)
        loader = loader_of(sampler)
        for once, name in ((moves(loader), "generator"), ((one for one in loader), "generator"),
                           (iter(loader), "_SingleProcessDataLoaderIter"),
                           (zip(loader, loader), "zip"), (enumerate(loader), "enumerate")):
            with self.assertRaisesRegex(
                    InvalidArgument,
                    f"^batches: {name} found, which cannot be iterated a second time; "
                    ".*put a generator around job.batches instead"):
                check_begins_anew(once)
        self.assertEqual(sampler.handed_out_count, 0)

    def test_loaders_that_can_be_iterated_again_are_not_touched(self):
        sampler = Sampler(COUNT, 4)
        moved = type("Moved", (), {"__iter__": lambda _: moves(loader_of(sampler))})
        for loader in (loader_of(sampler), moved(), []):
            check_begins_anew(loader)
        self.assertEqual(sampler.handed_out_count, 0)


class Sizes(unittest.TestCase):
    def test_rows_of_tensors_and_lengths_of_lists_of_samples(self):
        image, boxes = torch.zeros(3, 5, 7), [torch.zeros(k + 1, 4) for k in range(8)]
        sequences = torch.nn.utils.rnn.pack_sequence(boxes, enforce_sorted=False)
        pair = collections.namedtuple("Pair", "a b")
        for batch, has_8 in (
                (torch.zeros(8, 2), True),
                ([torch.zeros(8, 2), torch.zeros(8)], True),
                ({"x": torch.zeros(8, 2), "y": torch.zeros(8)}, True),
                (pair(torch.zeros(7, 2), (torch.zeros(7),)), False),
                ((torch.zeros(7, 2), torch.zeros(7)), False),
                ([torch.zeros(8, 2).numpy(), ["a"] * 8], True),
                (([image] * 8, boxes), True),
                ([image] * 8, False),
                (sequences, True),
                ("12345678", False), (None, False), (torch.tensor(8), False)):
            self.assertEqual(8 in sizes_of(batch), has_8, batch)

    def test_a_single_number_beside_the_fields_has_no_rows(self):
        for number in (torch.tensor(0.5), 0.5, None):
            with self.subTest(number):
                self.assertEqual(sizes_of((torch.zeros(8, 2), number)), {8})
                self.assertEqual(sizes_of({"x": torch.zeros(8), "weight": number}), {8})

    def test_two_fields_of_one_sample_are_no_two_samples(self):
        self.assertEqual(sizes_of([torch.zeros(1, 2), torch.zeros(1)]), {1})


if __name__ == "__main__":
    unittest.main()
