"""The newest checkpoint of a job, as a program of its own reads it."""

import contextlib
import hashlib
import io
import json
import pathlib
import tempfile
import unittest

import torch

from lockstep.errors import LockstepError, Mismatch
from lockstep.torch import newest_checkpoint
from lockstep.torch.checkpoint import CheckpointStore
from lockstep.torch.checkpoint_files import Manifest, Writer
from lockstep.torch.state import flatten


class Newest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name) / "checkpoints"
        self.store = CheckpointStore(self.directory, keep=2)
        self.store.make()
        self.store.claim(Writer("job", 0, 0, 0))

    def save(self, *steps):
        for step in steps:
            state = {"model": {"weight": torch.full((2,), float(step))}, "optimizer": {},
                     "extra": {"counter": {"count": step}}}
            self.store.save_async(flatten(state), Manifest(step, 0, 0, 0, 1, 2, {}))
            self.store.flush()

    def tensors(self, step):
        return self.directory / f"step-{step:08}" / "tensors.safetensors"

    def newest(self):
        """The step of the newest checkpoint, and the messages about skipped ones."""
        with contextlib.redirect_stderr(io.StringIO()) as told:
            found = newest_checkpoint(self.directory)
        return found.step, told.getvalue()

    def test_none_where_there_is_none(self):
        self.assertIsNone(newest_checkpoint(self.directory))
        self.assertIsNone(newest_checkpoint(self.directory / "missing"))

    def test_newest_has_the_model_and_extra(self):
        self.save(3, 12)
        found = newest_checkpoint(str(self.directory))
        self.assertEqual((found.step, found.extra), (12, {"counter": {"count": 12}}))
        self.assertEqual(found.model["weight"].tolist(), [12, 12])

    def test_a_damaged_one_is_named_and_the_one_before_is_taken(self):
        self.save(3, 12)
        self.tensors(12).write_bytes(b"x" * self.tensors(12).stat().st_size)
        step, told = self.newest()
        self.assertEqual(step, 3)
        self.assertRegex(told, r"checkpoint skipped: .*step-00000012: .* hashes to")

    def test_only_damaged_ones_are_an_error(self):
        self.save(3)
        self.tensors(3).unlink()
        with contextlib.redirect_stderr(io.StringIO()):
            with self.assertRaisesRegex(LockstepError, "can be used: .*step-00000003"):
                newest_checkpoint(self.directory)

    def rewrite_manifest(self, step, **changes):
        """Whole, with other fields."""
        path = self.tensors(step).with_name("manifest.json")
        document = {**json.loads(path.read_text()), **changes}
        del document["sha256"]
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        document["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        path.write_text(json.dumps(document, sort_keys=True))

    def test_one_of_a_later_release_is_refused_and_none_older_is_taken(self):
        self.save(3, 12)
        self.rewrite_manifest(12, formatVersion=4)
        with self.assertRaisesRegex(Mismatch, "step-00000012, cannot be read: manifest: format "
                                    "version 4, .* by a later release"):
            newest_checkpoint(self.directory)

    def test_a_directory_that_cannot_be_read_is_an_error(self):
        loop = self.directory / "loop"
        loop.symlink_to(loop)
        with self.assertRaisesRegex(LockstepError, "loop cannot be read: .*Too many levels"):
            newest_checkpoint(loop)

    def test_one_of_another_program_is_named_and_an_older_one_of_a_job_is_taken(self):
        self.save(3, 12)
        self.rewrite_manifest(12, fingerprint=None)
        step, told = self.newest()
        self.assertEqual(step, 3)
        self.assertRegex(told, "skipped: .*step-00000012: lockstep.torch.Job did not write it")
        self.rewrite_manifest(3, fingerprint={"model": []})
        with contextlib.redirect_stderr(io.StringIO()):
            with self.assertRaisesRegex(LockstepError, "lockstep.torch.Job did not write"):
                newest_checkpoint(self.directory)


if __name__ == "__main__":
    unittest.main()
