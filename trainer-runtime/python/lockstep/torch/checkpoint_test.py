"""Checkpoints: whole or not there, of the newest writer only, skipped when damaged."""

import collections
import json
import pathlib
import tempfile
import unittest

import torch

from lockstep.errors import InvalidArgument, LockstepError
from lockstep.torch.checkpoint import CheckpointStore, Manifest, Writer
from lockstep.torch.state import flatten, unflatten

STATE = {
    "step": 3,
    "model": {"weight": torch.arange(6.0).reshape(2, 3), "half": torch.ones(2).bfloat16()},
    "optimizer": {"state": {0: {"step": torch.tensor(2.0), "flag": torch.tensor([True])}},
                  "param_groups": [{"betas": (0.9, 0.999), "lr": 1e-3, "params": [0]}]},
    "sampler": {"ledger": torch.arange(9, dtype=torch.uint8)},
    "extra": {"milestones": collections.Counter({10: 1}), "none": None, "empty": torch.zeros(0, 3)},
}


def equal(one, other):
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and one == other


class Flat(unittest.TestCase):
    def test_a_state_comes_back_as_it_was_through_json(self):
        flat = flatten(STATE)
        found = unflatten(flat._replace(tree=json.loads(json.dumps(flat.tree))))
        self.assertTrue(equal(found, STATE))
        self.assertIsInstance(found["extra"]["milestones"], collections.Counter)

    def test_what_cannot_be_handed_on_is_named(self):
        with self.assertRaisesRegex(InvalidArgument, "extra/f is of function"):
            flatten({"extra": {"f": equal}})


    def test_two_tensors_of_one_path_are_refused(self):
        one = torch.ones(1)
        for state in ({"a": {"b": one}, "a/b": one}, {"a": {1: one, "1": one}}):
            with self.assertRaisesRegex(InvalidArgument, "two tensors are called a/"):
                flatten(state)


class Store(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name) / "checkpoints"

    def store(self, epoch=0, job="job", keep=3):
        store = CheckpointStore(str(self.directory), keep)
        store.claim(Writer(job, 0, epoch, 0))
        return store

    def save(self, store, step):
        store.save_async(flatten({**STATE, "step": step}), Manifest(step, 0, 2, 2, 1, 1, "print"))
        store.flush()

    def steps(self):
        return sorted(int(path.name[5:]) for path in self.directory.glob("step-*"))

    def test_the_newest_comes_back_and_so_many_stay(self):
        store = self.store(keep=2)
        for step in (1, 2, 100_000_000):
            self.save(store, step)
        self.assertEqual(self.steps(), [2, 100_000_000])
        self.assertTrue(equal(store.load_newest("print"), {**STATE, "step": 100_000_000}))
        self.assertEqual(list(self.directory.glob(".*")), [])

    def test_a_damaged_one_is_skipped(self):
        store = self.store()
        for step in (1, 2, 3):
            self.save(store, step)
        tensors = self.directory / "step-00000003" / "tensors.safetensors"
        raw = bytearray(tensors.read_bytes())
        raw[-1] ^= 1
        tensors.write_bytes(raw)
        manifest = self.directory / "step-00000002" / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"seed": 1', '"seed": 2'))
        self.assertEqual(store.load_newest("print")["step"], 1)

    def test_that_of_another_program_is_refused(self):
        store = self.store()
        self.save(store, 1)
        with self.assertRaisesRegex(LockstepError, "others than this program's"):
            store.load_newest("another")

    def test_a_writer_of_an_earlier_meeting_is_refused(self):
        old = self.store(epoch=1)
        self.save(old, 1)
        self.save(self.store(epoch=2), 2)
        with self.assertRaisesRegex(LockstepError, "is now written by"):
            self.save(old, 3)
        with self.assertRaisesRegex(LockstepError, "is now written by"):
            self.store(epoch=1)
        self.assertEqual(self.steps(), [1, 2])

    def test_a_job_that_was_followed_by_another_is_shut_out(self):
        first = self.store(job="first")
        self.save(first, 1)
        self.store(job="second")
        for attempt in (lambda: self.save(first, 2), lambda: self.store(job="first")):
            with self.assertRaisesRegex(LockstepError, "taken over by job second"):
                attempt()


if __name__ == "__main__":
    unittest.main()
