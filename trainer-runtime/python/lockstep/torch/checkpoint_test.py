"""Checkpoints: whole or not there, of the newest writer only, skipped when damaged."""

import collections
import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import io
import json
import os
import pathlib
import shutil
import socket
import tempfile
import threading
import unittest
import unittest.mock

import torch

from lockstep.errors import InvalidArgument, LockstepError, Mismatch, Superseded, TakenOver
from lockstep.torch.checkpoint import CheckpointStore
from lockstep.torch.checkpoint_files import CheckpointFiles, Manifest, Writer
from lockstep.torch.not_written import NotWritten
from lockstep.torch.state import flatten, unflatten

RETENTION = pathlib.Path(__file__).resolve().parents[3] / "checkpoint/testdata/retention.txt"

PRINT = {"plan": "none", "optimizer": "SGD", "seed of the Sampler": "1"}  # a fingerprint

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


def failing_writes(number):
    """No file can be written, for the reason of that number."""
    return unittest.mock.patch.object(
        CheckpointFiles, "write", side_effect=OSError(number, os.strerror(number)))


class Flat(unittest.TestCase):
    def test_a_state_comes_back_as_it_was_through_json(self):
        flat = flatten(STATE)
        found = unflatten(flat._replace(tree=json.loads(json.dumps(flat.tree))))
        self.assertTrue(equal(found, STATE))
        self.assertIsInstance(found["extra"]["milestones"], collections.Counter)

    def test_what_cannot_be_handed_on_is_named(self):
        with self.assertRaisesRegex(InvalidArgument, "extra/f: function found, expected a tensor"):
            flatten({"extra": {"f": equal}})


    def test_two_tensors_of_one_path_are_refused(self):
        one = torch.ones(1)
        for state in ({"a": {"b": one}, "a/b": one}, {"a": {1: one, "1": one}}):
            with self.assertRaisesRegex(InvalidArgument, "two tensors have the name a/"):
                flatten(state)


class Store(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name) / "checkpoints"

    def store(self, epoch=0, job="job", keep=3, incarnation=0):
        store = CheckpointStore(str(self.directory), keep)
        store.make()
        store.claim(Writer(job, 0, epoch, incarnation))
        return store

    def save(self, store, step, **state):
        store.save_async(flatten({**STATE, "step": step, **state}),
                         Manifest(step, 0, 2, 2, 1, 1, PRINT))
        return store.flush()

    def folder(self, step):
        return self.directory / f"step-{step:08}"

    def rewrite_manifest(self, step, **changes):
        """Whole, with other fields."""
        path = self.folder(step) / "manifest.json"
        document = {**json.loads(path.read_text()), **changes}
        del document["sha256"]
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        path.write_text(json.dumps(
            {**document, "sha256": hashlib.sha256(text.encode()).hexdigest()}))

    def save_as(self, store, word):
        """A step of retention.txt, before it is damaged."""
        values = {"model": {"weight": torch.tensor([float("nan")])}} if word.endswith("n") else {}
        self.assertIsNone(self.save(store, int(word.rstrip("ndsl")), **values))

    def damage(self, word):
        step = int(word.rstrip("ndsl"))
        if word.endswith("d"):
            (self.folder(step) / "manifest.json").unlink()
        if word.endswith("s"):
            (self.folder(step) / "tensors.safetensors").write_bytes(b"short")
        if word.endswith("l"):
            self.rewrite_manifest(step, formatVersion=4)

    def steps(self):
        return sorted(int(path.name[5:]) for path in self.directory.glob("step-*"))

    def test_the_newest_comes_back_and_so_many_stay(self):
        store = self.store(keep=2)
        for step in (1, 2, 100_000_000):
            self.save(store, step)
        self.assertEqual(self.steps(), [2, 100_000_000])
        self.assertTrue(equal(store.load_newest(PRINT), {**STATE, "step": 100_000_000}))
        self.assertEqual(list(self.directory.glob(".*")), [])

    def test_what_cannot_be_written_is_refused_and_named(self):
        files = CheckpointFiles(self.directory, 1)
        files.make()
        manifest = Manifest(1, 0, 0, 0, 1, 1, PRINT)
        with self.assertRaisesRegex(InvalidArgument, "was not claimed"):
            files.write(manifest, flatten({}))
        files.claim(Writer("job", 0, 0, 0))
        with self.assertRaisesRegex(InvalidArgument, "a NUL found, expected a name without one"):
            files.write(manifest, flatten({"a\0b": torch.ones(1)}))
        with self.assertRaisesRegex(InvalidArgument, "step: -1 found, expected 0 or more"):
            files.write(dataclasses.replace(manifest, step=-1), flatten({}))
        with self.assertRaisesRegex(InvalidArgument, "keep: 0 found, expected 1 or more to write"):
            CheckpointFiles(self.directory, 0).claim(Writer("job", 0, 0, 0))
        with self.assertRaisesRegex(InvalidArgument, "^checkpoint_directory: .*cannot be created"):
            CheckpointStore("/dev/null/folder", 1).make()
        self.assertEqual(self.steps(), [])

    def test_a_lock_that_another_process_keeps_ends_the_wait(self):
        store = self.store()
        folder = os.open(self.directory, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        fcntl.flock(folder, fcntl.LOCK_EX)
        with self.assertRaisesRegex(NotWritten, "checkpoints is locked by another process$"):
            store.claim(Writer("job", 0, 0, 0))
        threading.Timer(0.05, fcntl.flock, (folder, fcntl.LOCK_UN)).start()
        self.assertIsNone(self.save(store, 2))
        self.assertEqual(self.steps(), [2])

    def test_a_damaged_one_is_skipped(self):
        store = self.store()
        for step in (1, 2, 3):
            self.save(store, step)
        self.damage_tensors(3)
        manifest = self.directory / "step-00000002" / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"seed": 1', '"seed": 2'))
        self.assertEqual(store.load_newest(PRINT)["step"], 1)

    def test_what_is_no_file_or_too_long_is_damage_and_nothing_is_waited_for(self):
        def link(path):
            path.symlink_to("/dev/zero")

        def lengthen(path):  # has no blocks on the disk
            path.touch()
            os.truncate(path, 30 << 30)

        def listen(path):
            with contextlib.closing(socket.socket(socket.AF_UNIX)) as one:
                descriptor = os.open(path.parent, os.O_RDONLY)
                one.bind(f"/proc/self/fd/{descriptor}/{path.name}")
                os.close(descriptor)

        store = self.store(keep=20)
        self.save(store, 1)
        step = 1
        for make, words in ((os.mkfifo, "is a pipe or a device, expected a file"),
                            (link, "is a pipe or a device, expected a file"),
                            (pathlib.Path.mkdir, "is a folder, expected a file"),
                            (listen, "is a socket, expected a file"),
                            (lengthen, "has 32212254720 bytes, expected at most "),
                            (lambda path: path.write_text("[" * 500_000), "not JSON")):
            for name in ("manifest.json", "tensors.safetensors"):
                step += 1
                self.save(store, step)
                if name == "tensors.safetensors" and words == "not JSON":
                    continue
                (self.folder(step) / name).unlink()
                make(self.folder(step) / name)
                said = io.StringIO()
                with contextlib.redirect_stderr(said):
                    self.assertEqual(store.load_newest(PRINT)["step"], step - 1)
                self.assertRegex(said.getvalue(), f"skipped: {self.folder(step)}: .*{name[:7]}.*"
                                 f"{words}")
                self.assertFalse(store._files.is_whole(step))
                shutil.rmtree(self.folder(step))
                self.save(store, step)

    def test_a_fence_that_is_no_file_is_replaced(self):
        self.save(self.store(), 1)
        (self.directory / "fence.json").unlink()
        os.mkfifo(self.directory / "fence.json")
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.save(self.store(), 2)
        self.assertIn("fence.json is a pipe or a device, expected a file", said.getvalue())
        self.assertEqual(self.steps(), [1, 2])

    def damage_tensors(self, step):
        tensors = self.folder(step) / "tensors.safetensors"
        raw = bytearray(tensors.read_bytes())
        raw[-1] ^= 1
        tensors.write_bytes(raw)

    def test_nothing_but_damaged_ones_is_an_error_that_names_the_newest_and_all_stay(self):
        store = self.store()
        for step in (1, 2):
            self.save(store, step)
            self.damage_tensors(step)
        with self.assertRaisesRegex(
                LockstepError, f"^no checkpoint in {self.directory} can be used; move that folder "
                f"away to begin at step 0: {self.folder(2)}: .*safetensors hashes to "):
            self.store(epoch=1).load_newest(PRINT)
        self.assertEqual(self.steps(), [1, 2])

    def test_a_folder_of_another_step_is_skipped(self):
        store = self.store()
        self.save(store, 1)
        shutil.copytree(self.folder(1), self.folder(9))
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.assertEqual(store.load_newest(PRINT)["step"], 1)
        self.assertIn("step-00000009: manifest: step: 1 found, expected 9\n", said.getvalue())

    def test_one_of_another_job_that_came_later_is_skipped(self):
        self.save(self.store(job="other"), 9)
        store = self.store(job="mine")
        self.assertEqual(store.load_newest(PRINT)["step"], 9)  # it began from there
        self.save(store, 2)
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.assertEqual(store.load_newest(PRINT)["step"], 2)
        self.assertIn("step-00000009: written by job other, expected mine\n", said.getvalue())

    def test_that_of_another_program_is_refused(self):
        store = self.store()
        self.save(store, 1)
        for own, words in (
                ({"seed of the Sampler": "7"}, "seed of the Sampler: 7 found, the saved state was "
                                               "made with 1"),
                ({"plan": "a", "optimizer": "Adam"},
                 "plan: a found, the saved state was made with none; optimizer: Adam found, the "
                 "saved state was made with SGD"),
                ({f"field {number}": "1" for number in range(7)},
                 ".*; field 4: 1 found, the saved state was made with none; and 2 more")):
            with self.assertRaisesRegex(
                    Mismatch, f"step-00000001 does not fit this job: {words}; to begin at step 0, "
                    "set another checkpoint_directory$"):
                store.load_newest({**PRINT, **own})
        self.rewrite_manifest(1, fingerprint={"model": {}})
        with self.assertRaisesRegex(Mismatch, "lockstep.torch.Job of this release did not"):
            store.load_newest(PRINT)

    def test_that_of_a_later_release_is_refused(self):
        store = self.store()
        self.save(store, 1)
        self.save(store, 2)
        self.rewrite_manifest(2, formatVersion=4)
        with self.assertRaisesRegex(Mismatch, "manifest: format version 4, expected 1 to 3: it "):
            store.load_newest(PRINT)

    def test_what_stays_is_what_the_built_in_trainer_keeps(self):
        rows = [line.split("|") for line in RETENTION.read_text().splitlines()
                if line and not line.startswith("#")]
        self.assertGreater(len(rows), 10)
        for keep, there, saved, stays in rows:
            self.directory = self.directory.with_name(self.directory.name + "+")
            with self.subTest(keep=keep, there=there, saved=saved):
                for word in there.split():
                    self.save_as(self.store(keep=100), word)
                for word in there.split():
                    self.damage(word)
                self.save_as(self.store(keep=int(keep)), saved.strip())
                self.assertEqual(self.steps(), [int(word) for word in stays.split()])

    def test_a_step_that_is_saved_is_not_written_again_unless_it_is_damaged(self):
        store = self.store(keep=1)
        self.save(store, 1)
        before = self.folder(1).stat().st_ino
        self.save(store, 1)
        self.assertEqual(self.folder(1).stat().st_ino, before)
        (self.folder(1) / "manifest.json").unlink()
        self.save(store, 1)
        self.assertNotEqual(self.folder(1).stat().st_ino, before)
        self.assertEqual(store.load_newest(PRINT)["step"], 1)

    def test_a_disk_that_fails_is_told_and_the_next_save_tries_again(self):
        store = self.store()
        with failing_writes(errno.ENOSPC):
            self.assertIn("No space left", str(self.save(store, 1)))
        self.assertEqual(list(self.directory.glob("[.s]*")), [])
        self.assertIsNone(self.save(store, 1))
        self.assertEqual(self.steps(), [1])

    def test_who_cannot_write_says_where_and_what_to_do_about_it(self):
        store = self.store()
        for number, cause, remedy in (
                (errno.ENOSPC, "No space left on device", "free space there, or keep fewer"),
                (errno.EDQUOT, "Disk quota exceeded", "free space there, or keep fewer"),
                (errno.EACCES, "Permission denied", f"give user {os.geteuid()}, who runs"),
                (errno.EROFS, "Read-only file system", "mount the file system"),
                (errno.EIO, "Input/output error", "check the disk"),
                (errno.ESTALE, "Stale file handle", "check the disk, or the server")):
            with failing_writes(number), contextlib.redirect_stderr(io.StringIO()) as told:
                problem = str(self.save(store, 1))
            self.assertTrue(problem.startswith(f"{cause}: {self.directory}; {remedy}"), problem)
            self.assertEqual(
                told.getvalue(), f"lockstep: checkpoint of step 1 not written: {problem}\n")
        with failing_writes(errno.EMFILE):  # nobody knows a remedy for all
            self.assertEqual(str(self.save(store, 1)), f"Too many open files: {self.directory}")

    def test_who_finds_its_folder_gone_says_what_is_missing(self):
        store = self.store()
        shutil.rmtree(self.directory)
        self.assertTrue(str(self.save(store, 1)).startswith(
            f"No such file or directory: {self.directory}; restore what was removed"))

    def test_a_damaged_fence_is_no_other_job_and_the_next_claim_replaces_it(self):
        for damage in ("{", "[]"):
            store = self.store()
            (self.directory / "fence.json").write_text(damage)
            self.assertIsInstance(self.save(store, 1), ValueError)
            self.assertEqual(self.steps(), [])
        store.make()
        store.claim(Writer("job", 0, 1, 0))
        self.assertIsNone(self.save(store, 1))

    def test_a_writer_of_an_earlier_meeting_is_refused(self):
        old = self.store(epoch=1)
        self.save(old, 1)
        self.save(self.store(epoch=2), 2)
        with self.assertRaisesRegex(
                Superseded, "is now written by attempt 0, epoch 2, incarnation 0 of job job, not "
                "by attempt 0, epoch 1, incarnation 0 of job job: the other process saves"):
            self.save(old, 3)
        with self.assertRaisesRegex(Superseded, "is now written by"):
            self.store(epoch=1)
        self.assertEqual(self.steps(), [1, 2])

    def test_a_successor_of_the_chief_follows_whatever_epoch_that_had_reached(self):
        lost = self.store(epoch=3)
        self.save(lost, 1)
        successor = self.store(incarnation=1)
        self.assertIsNone(self.save(successor, 2))
        with self.assertRaisesRegex(Superseded, "is now written by attempt 0, epoch 0, incarn"):
            self.save(lost, 3)
        self.assertEqual(self.steps(), [1, 2])

    def test_a_job_that_was_followed_by_another_is_shut_out(self):
        first = self.store(job="first")
        self.save(first, 1)
        self.store(job="second")
        for attempt in (lambda: self.save(first, 2), lambda: self.store(job="first")):
            with self.assertRaisesRegex(
                    TakenOver, "taken over by job second, .*: set another checkpoint_directory"):
                attempt()


if __name__ == "__main__":
    unittest.main()
