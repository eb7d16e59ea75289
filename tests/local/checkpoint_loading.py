"""Trains the network of docs/reference/checkpoints.md and hands out that page's code for tests."""

import gzip
import importlib.util
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = REPOSITORY / "docs" / "reference" / "checkpoints.md"
MNIST = REPOSITORY / "examples" / "data" / "mnist"
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", REPOSITORY / "build" / "dev" / "bin")).resolve()
TEST_SAMPLES = 1000

# A digit between two classes may fall to either side by the order of additions.
ACCURACY_TOLERANCE = 0.002
TRAIN_TIMEOUT_SECONDS = 200  # some seconds; far above, so that a hang is a failure

# examples/mnist.yaml's network.
TRAINING = {
    "seed": 3, "epochs": 1, "globalBatchSize": 96,
    "model": {"inputShape": [28, 28, 1], "layers": [
        {"type": "Conv2D", "filters": 32, "kernelSize": 3, "activation": "relu"},
        {"type": "MaxPooling2D", "poolSize": 2},
        {"type": "Flatten"},
        {"type": "Dense", "units": 64, "activation": "relu"},
        {"type": "Dense", "units": 10}]},
    "loss": {"type": "SparseCategoricalCrossentropy", "fromLogits": True},
    "optimizer": {"type": "Adam"},
    "dataset": {"format": "idx", "images": "t10k-images-idx3-ubyte.gz",
                "labels": "t10k-labels-idx1-ubyte.gz", "scale": 1 / 255,
                "testSamples": TEST_SAMPLES},
}


def has(*modules):
    return all(importlib.util.find_spec(module) is not None for module in modules)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def train(folder):
    """Trains on one rank; returns the newest tensors file and the last words."""
    words = folder / "last-words"
    cluster = {"cluster": {"worker": [f"127.0.0.1:{free_port()}"]},
               "task": {"type": "worker", "index": 0}}
    variables = {
        "LOCKSTEP_JOB": "digits", "LOCKSTEP_NAMESPACE": "default", "LOCKSTEP_JOB_UID": "uid",
        "LOCKSTEP_ATTEMPT": "0", "LOCKSTEP_EPOCH": "0", "LOCKSTEP_INCARNATION": "0",
        "LOCKSTEP_POD": "digits-worker-0", "LOCKSTEP_ROLE": "worker", "LOCKSTEP_INDEX": "0",
        "LOCKSTEP_RANK": "0", "LOCKSTEP_WORLD_SIZE": "1", "LOCKSTEP_HOST": "127.0.0.1",
        "LOCKSTEP_BIND_ADDRESS": "127.0.0.1", "LOCKSTEP_STATUS_PORT": "0",
        "LOCKSTEP_TRAINING": json.dumps(TRAINING), "LOCKSTEP_DATA_DIR": str(MNIST),
        "LOCKSTEP_CHECKPOINT_DIR": str(folder / "checkpoints"),
        "LOCKSTEP_TERMINATION_MESSAGE_FILE": str(words), "TF_CONFIG": json.dumps(cluster),
    }
    subprocess.run([BIN / "lockstep-runtime", "train"], env={**os.environ, **variables}, check=True,
                   capture_output=True, text=True, timeout=TRAIN_TIMEOUT_SECONDS)
    newest = max((folder / "checkpoints").glob("step-*"))
    return newest / "tensors.safetensors", json.loads(words.read_text())


def code_of(kind, tensors):
    """The document's sample, reading `tensors` in place of the file that it names."""
    text = DOCUMENT.read_text()
    sample = re.search(rf"```python {kind}\n(.*?)```", text, re.S).group(1)
    named = r'"checkpoints/step-\d+/tensors\.safetensors"'
    code, count = re.subn(named, repr(str(tensors)), sample)
    assert count == 1, sample
    return code


def test_split():
    """Bytes of the digits and labels that training has not seen."""
    images = gzip.decompress((MNIST / TRAINING["dataset"]["images"]).read_bytes())[16:]
    labels = gzip.decompress((MNIST / TRAINING["dataset"]["labels"]).read_bytes())[8:]
    return images[-TEST_SAMPLES * 784:], labels[-TEST_SAMPLES:]


class LoadingTest(unittest.TestCase):
    """One training, whose checkpoint all tests of a class read."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lockstep-loading-")
        cls.tensors, words = train(pathlib.Path(cls.folder.name))
        cls.accuracy = words["result"]["testAccuracy"]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def assert_same_hits(self, hits):
        self.assertGreater(self.accuracy, 0.8)
        self.assertAlmostEqual(hits / TEST_SAMPLES, self.accuracy, delta=ACCURACY_TOLERANCE)
