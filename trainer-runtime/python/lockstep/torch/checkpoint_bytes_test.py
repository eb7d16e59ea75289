"""The files of a checkpoint, byte by byte, as releases before liblockstep wrote them have them."""

import json
import pathlib
import re
import tempfile
import unittest

import torch

from lockstep.torch.checkpoint import CheckpointStore
from lockstep.torch.checkpoint_files import Manifest, Writer
from lockstep.torch.state import flatten

PRINT = {"plan": "größe \x01\t\"", "a": "b"}  # a fingerprint

# An order of keys that is not that of the file, and a name beyond ASCII.
STATE = {
    "step": 3,
    "model": {"weight": torch.arange(6.0).reshape(2, 3), "half": torch.ones(2).bfloat16(),
              "größe\x7f": torch.tensor(7)},
    "optimizer": {"state": {0: {"flag": torch.tensor([True])}},
                  "param_groups": [{"betas": (0.9, 0.999)}]},
    "sampler": {"ledger": torch.arange(9, dtype=torch.uint8)},
    "extra": {"empty": torch.zeros(0, 3), "text": "é\n"},
}

FENCE = """{
  "attempt": 1,
  "epoch": 2,
  "incarnation": 3,
  "jobUid": "jöb",
  "sha256": "80c00a17ee79d2552705ca53c57d00b4246449644a22e8464193656b66442105",
  "shutOut": [
    "older"
  ]
}"""

MANIFEST = r"""{
  "attempt": 1,
  "created": "2026-11-30T07:27:40Z",
  "cursor": {
    "dataEpoch": 1,
    "position": 2,
    "samplesConsumed": 10
  },
  "epoch": 2,
  "epochSums": {
    "correctCount": 0,
    "dataEpoch": 1,
    "lossSum": null,
    "sampleCount": 0
  },
  "fingerprint": {
    "lockstep.torch": {
      "a": "b",
      "plan": "größe \u0001\t\""
    }
  },
  "formatVersion": 2,
  "incarnation": 3,
  "isFinite": true,
  "jobUid": "jöb",
  "seed": -5,
  "sha256": "6a8170e27d0898bb98467b210473dfd032dd44eea89a087fb6b2dee3e28a1100",
  "step": 3,
  "tensors": {
    "bytes": 1158,
    "file": "tensors.safetensors",
    "sha256": "73cdd19132120232547da9e29ea260964eeb967c77e052265d50eb599a2b8a87"
  },
  "worldSize": 4
}"""

HEADER = "".join((
    r'{"__metadata__":{"format":"lockstep","lockstep.torch":"{\"@dict\": [[\"step\", 3], ',
    r'[\"model\", {\"@dict\": [[\"weight\", {\"@tensor\": \"model/weight\"}], ',
    r'[\"half\", {\"@tensor\": \"model/half\"}], ',
    r'[\"gr\\u00f6\\u00dfe\\u007f\", {\"@tensor\": \"model/gr\\u00f6\\u00dfe\\u007f\"}]]}], ',
    r'[\"optimizer\", {\"@dict\": [[\"state\", {\"@dict\": [[0, {\"@dict\": ',
    r'[[\"flag\", {\"@tensor\": \"optimizer/state/0/flag\"}]]}]]}], ',
    r'[\"param_groups\", [{\"@dict\": [[\"betas\", {\"@tuple\": [0.9, 0.999]}]]}]]]}], ',
    r'[\"sampler\", {\"@dict\": [[\"ledger\", {\"@tensor\": \"sampler/ledger\"}]]}], ',
    r'[\"extra\", {\"@dict\": [[\"empty\", {\"@tensor\": \"extra/empty\"}], ',
    r'[\"text\", \"\\u00e9\\n\"]]}]]}"},',
    r'"extra/empty":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]},',
    r'"lockstep/ledger":{"dtype":"U8","shape":[9],"data_offsets":[0,9]},',
    r'"model/gr\u00f6\u00dfe\u007f":{"dtype":"I64","shape":[],"data_offsets":[9,17]},',
    r'"model/half":{"dtype":"BF16","shape":[2],"data_offsets":[17,21]},',
    r'"model/weight":{"dtype":"F32","shape":[2,3],"data_offsets":[21,45]},',
    r'"optimizer/state/0/flag":{"dtype":"BOOL","shape":[1],"data_offsets":[45,46]}}    ',
)).encode()
VALUES = (bytes(range(9)) + (7).to_bytes(8, "little") + b"\x80\x3f\x80\x3f"
          + torch.arange(6.0).numpy().tobytes() + b"\x01")
TENSORS = len(HEADER).to_bytes(8, "little") + HEADER + VALUES


class Bytes(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)
        self.folder = self.directory / "step-00000003"

    def test_files_are_as_they_were(self):
        CheckpointStore(self.directory, 3).claim(Writer("older", 0, 1, 0))
        store = CheckpointStore(self.directory, 3)
        store.claim(Writer("jöb", 1, 2, 3))
        store.save_async(flatten(STATE), Manifest(3, 1, 2, 10, -5, 4, PRINT))
        self.assertIsNone(store.flush())
        self.assertEqual((self.directory / "fence.json").read_text(), FENCE)
        self.assertEqual((self.folder / "tensors.safetensors").read_bytes(), TENSORS)

        def timeless(text):
            return re.sub('"(created|sha256)": "[^"]*",?\n  "(cur|st)', r'"\1": ,\n  "\2', text)

        text = (self.folder / "manifest.json").read_text()
        self.assertEqual(timeless(text), timeless(MANIFEST))
        created = json.loads(text)["created"]
        self.assertRegex(created, r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d")

    def test_what_a_release_before_wrote_is_read(self):
        self.folder.mkdir()
        (self.directory / "fence.json").write_text(FENCE)
        (self.folder / "manifest.json").write_text(MANIFEST)
        (self.folder / "tensors.safetensors").write_bytes(TENSORS)
        store = CheckpointStore(self.directory, 3)
        writer = Writer("jöb", 1, 2, 3)
        self.assertTrue(store.has_saved(3, writer))
        store.claim(writer)
        found = store.load_newest(PRINT)
        self.assertEqual(flatten(found).tree, flatten(STATE).tree)
        for name, tensor in flatten(STATE).tensors.items():
            self.assertTrue(torch.equal(flatten(found).tensors[name], tensor), name)


if __name__ == "__main__":
    unittest.main()
