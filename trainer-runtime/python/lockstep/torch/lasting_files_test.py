"""Folders that take each other's place."""

import ctypes
import errno
import pathlib
import tempfile
import unittest
from unittest import mock

from lockstep.torch import checkpoint, lasting_files


class Exchange(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(self.scratch.cleanup)
        self.root = pathlib.Path(self.scratch.name)
        self.folder, self.target = self.root / ".tmp-1", self.root / "step-00000010"
        for folder, text in ((self.folder, "new"), (self.target, "old")):
            folder.mkdir()
            (folder / "text").write_text(text)

    def texts(self):
        return [(folder / "text").read_text() for folder in (self.folder, self.target)]

    def test_what_stood_there_is_handed_back(self):
        lasting_files.exchange(self.folder, self.target)
        self.assertEqual(self.texts(), ["old", "new"])

    def without_exchange(self):
        """Some network file systems."""
        library = mock.Mock()
        library.renameat2 = lambda *_: -1
        return mock.patch.object(ctypes, "CDLL", return_value=library)

    def test_a_step_is_there_at_each_moment_also_where_nothing_can_be_exchanged(self):
        store = checkpoint.CheckpointStore(self.root, 1)
        seen = []
        rename = pathlib.Path.rename

        def watched(path, target):
            rename(path, target)
            seen.append([step for step, _ in store.steps()])

        with self.without_exchange(), mock.patch.object(pathlib.Path, "rename", watched):
            lasting_files.exchange(self.folder, self.target)
            self.assertEqual(seen, [[10], [10, 10], [10]])
            self.assertEqual(self.texts(), ["old", "new"])
            (self.root / "step-000000010").mkdir()  # of a crash
            lasting_files.exchange(self.folder, self.target)
        self.assertEqual(seen, 2 * [[10], [10, 10], [10]])
        self.assertEqual(self.texts(), ["new", "old"])

    def test_what_stood_there_stays_where_the_new_one_cannot_take_its_place(self):
        rename = pathlib.Path.rename

        def failing(path, target):
            if path == self.folder:
                raise OSError(errno.ENOTEMPTY if self.target.exists() else errno.EIO, "no")
            rename(path, target)

        with self.without_exchange(), mock.patch.object(pathlib.Path, "rename", failing):
            with self.assertRaises(OSError):
                lasting_files.exchange(self.folder, self.target)
        self.assertEqual(self.texts(), ["new", "old"])


if __name__ == "__main__":
    unittest.main()
