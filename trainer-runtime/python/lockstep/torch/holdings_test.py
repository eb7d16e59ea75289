"""What travels with a job, and how ranks find that they hold different things."""

import contextlib
import io
import math
import unittest

import torch
from torch import nn

from lockstep.errors import InvalidArgument, Mismatch
from lockstep.fake_exchange import FakeExchange, in_threads
from lockstep.torch.agreement import check_equal, ranks_text
from lockstep.torch.holdings import Holdings, is_finite
from lockstep.torch.state import flatten, unflatten
from lockstep.torch.tensor_hash import _CHUNK_WORDS, _TOGETHER_BYTES, hash64, hash_all


def holdings(seed=1):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    factor = nn.Parameter(torch.randn(1))
    optimizer = torch.optim.Adam([*model.parameters(), factor], lr=0.1)
    return Holdings(model, optimizer)


class Travel(unittest.TestCase):
    def test_parameters_of_the_optimizer_alone_and_which_are_frozen_travel(self):
        source, target = holdings(), holdings(seed=2)
        source.model[0].requires_grad_(False)
        target.model[1].requires_grad_(False)
        target.load(unflatten(flatten(source.state())), is_of_file=False)
        self.assertEqual(source.hashes(), target.hashes())
        self.assertEqual(source.state()["trained"], target.state()["trained"])
        self.assertIn("loose/optimizer: group 0, parameter 4", source.hashes())

    def test_what_a_file_says_of_frozen_ones_is_the_programs_own_choice(self):
        source, target = holdings(), holdings(seed=2)
        source.model[0].requires_grad_(False)
        target.load(source.state(), is_of_file=True)
        self.assertTrue(target.model[0].weight.requires_grad)
        older = {name: one for name, one in source.state().items() if name in
                 ("model", "optimizer", "extra")}  # of a file before there were others
        target.load(older, is_of_file=True)

    def test_each_part_shows_in_the_hashes(self):
        one = holdings()
        before = one.hashes()
        one.model[1].running_mean.data[2] += 1e-6
        one.optimizer.param_groups[0]["params"][-1].data.neg_()
        one.optimizer.param_groups[0]["lr"] = 0.2
        after = one.hashes()
        self.assertEqual(
            [name for name in before if before[name] != after[name]],
            ["model/1.running_mean", "loose/optimizer: group 0, parameter 4",
             "the settings of optimizer and scaler"])


class Finite(unittest.TestCase):
    def test_each_part_of_the_state_that_is_not_finite_is_named(self):
        one = holdings()
        self.assertIsNone(one.first_not_finite())
        one.model[1].running_var[1] = math.nan
        self.assertEqual(one.first_not_finite(), "model: 1.running_var")
        one.model[1].running_var[1] = 1.0
        one.model[0].weight.sum().backward()
        one.optimizer.step()
        self.assertIsNone(one.first_not_finite())
        one.optimizer.state[one.model[0].weight]["exp_avg"][0] = math.inf
        self.assertEqual(one.first_not_finite(), "optimizer: exp_avg of model: 0.weight")

    def test_what_buffers_began_with_and_infinities_of_extra_are_no_damage(self):
        model = nn.Linear(1, 1)
        model.register_buffer("mask", torch.tensor([0.0, -math.inf]))
        model.register_buffer("unset", torch.tensor([math.nan]))
        best = nn.Linear(1, 1)
        best.weight.data.fill_(math.inf)
        one = Holdings(model, torch.optim.SGD(model.parameters(), lr=0.1), {"best": best})
        self.assertIsNone(one.first_not_finite())
        best.weight.data.fill_(math.nan)
        self.assertEqual(one.first_not_finite(), "extra/best/weight")
        model.mask[0] = math.nan
        self.assertEqual(one.first_not_finite(), "model: .mask")

    def test_sums_that_overflow_are_finite_numbers(self):
        self.assertTrue(is_finite(torch.full((3,), 3e38)))
        self.assertTrue(is_finite(torch.full((3,), 6e4, dtype=torch.float16)))
        self.assertFalse(is_finite(torch.complex(torch.zeros(2), torch.tensor([0.0, math.nan]))))


class Hashes(unittest.TestCase):
    def test_each_bit_and_place_counts_in_each_length(self):
        for count in (1, 3, 8, 13, 8 * _CHUNK_WORDS + 5):
            values = torch.zeros(count, dtype=torch.uint8)
            found = {hash64(values)}
            places = {0, count // 2, count - 1}
            for place in places:
                for bit in (1, 128):
                    changed = values.clone()
                    changed[place] = bit
                    found.add(hash64(changed))
            self.assertEqual(len(found), 1 + 2 * len(places))
        self.assertNotEqual(hash64(torch.zeros(3)), hash64(torch.zeros(4)))

    def test_signs_that_are_changed_in_many_places_count(self):
        for dtype, every in ((torch.float64, 1), (torch.float32, 2), (torch.bfloat16, 4)):
            for count in (8, 1024, 2 * _CHUNK_WORDS * every):
                values = torch.randn(count, dtype=torch.float64).to(dtype)
                for first in range(every):
                    changed = values.clone()
                    changed[first::every].neg_()
                    self.assertNotEqual(hash64(values), hash64(changed), (dtype, count, first))

    def test_equal_values_have_equal_ones_however_they_lie(self):
        values = torch.randn(3, 5)
        self.assertEqual(hash64(values), hash64(values.t().contiguous().t()))
        self.assertEqual(hash64(values[1]), hash64(values[1].clone()))
        self.assertNotEqual(hash64(values), hash64(values.flip(0)))

    def test_those_of_many_together_show_each_bit(self):
        long = torch.zeros(_TOGETHER_BYTES // 4 + 1)
        tensors = [torch.zeros(3), long, torch.zeros(2), torch.ones(2)]
        before = hash_all(tensors)
        self.assertEqual(before, hash_all([one.clone() for one in tensors]))
        for one in tensors:
            one[-1] += 1e-6
            after = hash_all(tensors)
            self.assertNotEqual(after, before)
            before = after

    def test_extra_state_shows_by_key_in_whatever_order_it_was_filled(self):
        class Counts:
            def __init__(self, **values):
                self.values = values

            def state_dict(self):
                return self.values

            def load_state_dict(self, state):
                self.values = state

        def of(**values):
            return Holdings(model, optimizer, {"counts": Counts(**values)})

        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        before = of(a=1, b={2: torch.ones(1), 3: 4})
        for other, changed in ((of(b={3: 4, 2: torch.ones(1)}, a=1), []),
                               (of(a=2, b={2: torch.ones(1), 3: 4}), ["extra/counts"]),
                               (of(a=1, b={2: torch.zeros(1), 3: 4}), ["extra/counts/b/2"])):
            first, second = before.hashes(), other.hashes()
            self.assertEqual([name for name in first if first[name] != second[name]], changed)
            self.assertEqual(before.digest() != other.digest(), bool(changed))

    def test_extra_state_that_cannot_be_handed_on_is_refused_by_name(self):
        def stateful(state):
            one = nn.Module()
            one.state_dict = lambda: state
            return one

        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        later = {}
        made = Holdings(model, optimizer, {"a": stateful(later)})
        sparse = torch.ones(2, 2).to_sparse()
        for words, one in (
                ("state: extra/a/v: torch.sparse_coo found, expected a", stateful({"v": sparse})),
                ("state: extra/a/v: set found, expected a tensor", stateful({"v": {1}})),
                ("extra: a: NoneType found, expected something that has state_dict and", None)):
            with self.assertRaisesRegex(InvalidArgument, f"^{words}"):
                Holdings(model, optimizer, {"a": one})
        later["v"] = sparse
        for call in (made.hashes, made.digest, made.first_not_finite):
            with self.assertRaisesRegex(InvalidArgument, "^state: extra/a/v: torch.sparse_coo"):
                call()

    def test_extra_state_of_a_file_that_the_program_has_not_is_named(self):
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        held = Holdings(model, optimizer, {"schedule": nn.Linear(1, 1), "kept": nn.Linear(1, 1)})
        state = {**held.state(), "scaler": {"scale": 2.0}}
        for extra, words in (({}, "kept, schedule, the state of the GradScaler"),
                             ({"kept": nn.Linear(1, 1)}, "schedule, the state of the GradScaler")):
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                Holdings(model, optimizer, extra).load(state, is_of_file=True)
            self.assertRegex(said.getvalue(), "^lockstep: the checkpoint has extra state that this "
                             "program does not pass to the Job, so the next checkpoint will not "
                             f"contain it: {words}; to ")

    def test_the_first_that_differs_is_named_with_all_ranks(self):
        class FakeSession:
            def __init__(self, rank):
                self.rank = rank

            def all_gather(self, tensor, timeout):
                return world.exchange(self.rank, tensor)

        def compare(rank):
            hashes = {"a": "1", "b": "2", "c": "3"}
            own_order = dict(sorted(hashes.items(), reverse=rank == 2))
            check_equal(FakeSession(rank), own_order, 1.0, "rule")
            if rank in (1, 3):
                hashes.update(b="4", c=str(rank))
            check_equal(FakeSession(rank), hashes, 1.0, "rule")

        world = FakeExchange(4, torch.stack)
        for one in in_threads(4, compare):
            self.assertIsInstance(one, Mismatch)
            self.assertEqual(str(one), "b differs between rank 0 and ranks 1, 3: rule")
        self.assertEqual(ranks_text(range(1, 12)), "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 others")


if __name__ == "__main__":
    unittest.main()
