"""The newest checkpoint of a job, as a program of its own reads it."""

import contextlib
import io
import json
import pathlib
import shutil
import tempfile
import unittest
import unittest.mock

import torch

from lockstep.errors import LockstepError, Mismatch
from lockstep.torch import newest_checkpoint
from lockstep.torch.checkpoint import CheckpointStore, Manifest, Writer
from lockstep.torch.checkpoint_format import dump_hashed
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

    def test_one_of_a_later_release_is_refused_and_none_older_is_taken(self):
        self.save(3, 12)
        path = self.tensors(12).with_name("manifest.json")
        document = {**json.loads(path.read_text()), "formatVersion": 3}
        del document["sha256"]
        path.write_bytes(dump_hashed(document))
        with self.assertRaisesRegex(Mismatch, "step-00000012, cannot be read: manifest: format "
                                    "version 3, .* by a later release"):
            newest_checkpoint(self.directory)

    def test_a_directory_that_cannot_be_read_is_an_error(self):
        self.save(3)
        for error in (PermissionError(13, "Permission denied"), OSError(5, "Input/output error")):
            with unittest.mock.patch.object(pathlib.Path, "iterdir", side_effect=error):
                with self.assertRaisesRegex(LockstepError, f"cannot be read: .*{error.strerror}"):
                    newest_checkpoint(self.directory)

    def test_those_that_are_removed_each_time_are_an_error(self):
        self.save(3)
        gone = [(3, self.directory / "step-00000099")]
        with unittest.mock.patch.object(CheckpointStore, "steps", return_value=gone) as steps:
            with self.assertRaisesRegex(LockstepError, "removed while they were read"):
                newest_checkpoint(self.directory)
        self.assertGreaterEqual(steps.call_count, 10)

    def test_those_that_are_removed_while_they_are_read_are_looked_for_again(self):
        self.save(3)
        read = CheckpointStore.read

        def lose(store, step, folder, own_steps):
            if step == 3:
                shutil.rmtree(folder)
                self.save(12)
            return read(store, step, folder, own_steps)

        with unittest.mock.patch.object(CheckpointStore, "read", lose):
            self.assertEqual(self.newest(), (12, ""))

    def test_one_of_another_program_is_named(self):
        self.save(3)
        with unittest.mock.patch.object(
                CheckpointStore, "read", return_value=({"fingerprint": {"model": []}}, b"")):
            with contextlib.redirect_stderr(io.StringIO()):
                with self.assertRaisesRegex(LockstepError, "not written by lockstep.torch.Job"):
                    newest_checkpoint(self.directory)


if __name__ == "__main__":
    unittest.main()
