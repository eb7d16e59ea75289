"""Damaged checkpoints: what is decided and said is what the built-in trainer decides and says."""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import tempfile
import unittest

import torch

from lockstep.errors import LockstepError
from lockstep.torch.checkpoint import CheckpointStore
from lockstep.torch.checkpoint_files import Manifest, Writer
from lockstep.torch.state import flatten

PRINT = {"plan": "none"}  # a fingerprint
CASES = pathlib.Path(__file__).resolve().parents[3] / "checkpoint/testdata/damages.json"


class Damages(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name) / "checkpoints"

    def store(self):
        store = CheckpointStore(str(self.directory), 3)
        store.make()
        store.claim(Writer("job", 0, 1, 0))
        for step in (1, 2, 3):
            state = {"step": step, "sampler": {"ledger": torch.arange(9, dtype=torch.uint8)},
                     "model": {"weight": torch.full((8,), float(step))}}
            store.save_async(flatten(state), Manifest(step, 0, 2, 2, 1, 3, PRINT))
        self.assertIsNone(store.flush())
        return store

    def damage(self, step, how):
        folder = self.directory / f"step-{step:08}"
        path, what = folder / how["file"], how["do"]
        if what == "remove all":
            shutil.rmtree(folder)
            folder.write_text("a file")
            return
        raw = path.read_bytes()
        path.unlink()
        if what == "folder":
            path.mkdir()
        elif what == "pipe":
            os.mkfifo(path)
        elif what == "loop":
            path.symlink_to(path)
        elif what == "fields":
            text = json.dumps(how["fields"], sort_keys=True, separators=(",", ":"))
            digest = hashlib.sha256(text.encode()).hexdigest()
            path.write_text(json.dumps({**how["fields"], "sha256": digest}))
        elif what != "remove":
            path.write_bytes({
                "cut": lambda: raw[:-1], "grow": lambda: raw + b"\0", "empty": lambda: b"",
                "flip": lambda: raw[:-1] + bytes([raw[-1] ^ 1]),
                "edit": lambda: raw.replace(how["old"].encode(), how["new"].encode(), 1),
                "of step 2": lambda: (self.directory / "step-00000002" / path.name).read_bytes(),
                "text": lambda: how["text"].encode()}[what]())

    def plain(self, text):
        """As the table has it, whatever the folder, the hashes and the sizes are here."""
        text = text.replace(str(self.directory), "DIR")
        for pattern, word in (
                ("[0-9a-f]{64}", "HASH"), (r"\b[1-9][0-9]* bytes", "N bytes"),
                ("expected (at most )?[1-9][0-9]*$", r"expected \1N"),
                ("expected 1 to 3", "expected 1 to FORMAT")):
            text = re.sub(pattern, word, text)
        return text

    def test_decision_and_sentences_are_those_of_the_table(self):
        cases = json.loads(CASES.read_text())
        self.assertGreater(len(cases), 20)
        for case in cases:
            with self.subTest(case["name"]):
                shutil.rmtree(self.directory, ignore_errors=True)
                store = self.store()
                for step, how in case["damage"].items():
                    self.damage(int(step), how)
                names = sorted(path.name for path in self.directory.iterdir())
                said = io.StringIO()
                refused = state = None
                with contextlib.redirect_stderr(said):
                    try:
                        state = store.load_newest(PRINT)
                    except LockstepError as error:
                        refused = self.plain(str(error))
                self.assertEqual(sorted(path.name for path in self.directory.iterdir()), names)
                self.assertEqual(refused, case.get("refused"))
                if refused is None:
                    self.assertEqual(state["step"], case["goes_on_from"])
                    self.assertEqual(
                        [self.plain(line) for line in said.getvalue().splitlines()],
                        ["lockstep: checkpoint skipped: " + line for line in case["skipped"]])


if __name__ == "__main__":
    unittest.main()
