"""What the programs of python_trainers_test.py share: a tiny network, its data, and the moment at
which a rank kills itself."""

import hashlib
import os
import signal
import time

import torch

FEATURES, CLASSES, SAMPLES = 16, 4, 240


class Network(torch.nn.Module):
    """As Hugging Face's models are: it gets labels and returns its loss."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(FEATURES, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(),
            torch.nn.Dropout(0.2), torch.nn.Linear(32, CLASSES))

    def forward(self, inputs, labels=None):
        found = self.layers(inputs)
        if labels is None:
            return {"logits": found}
        return {"loss": torch.nn.functional.cross_entropy(found, labels), "logits": found}


class Samples(torch.utils.data.Dataset):
    """Of random numbers; the label says which quarter of them has the largest sum."""

    def __init__(self):
        chance = torch.Generator().manual_seed(3)
        self.inputs = torch.randn(SAMPLES, FEATURES, generator=chance)
        self.labels = self.inputs.view(SAMPLES, CLASSES, -1).sum(2).argmax(1)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return {"inputs": self.inputs[index], "labels": self.labels[index]}


class Moments:
    """`words`, each for the first process of the rank: `RANK:STEP` kills it after this step,
    `saves:RANK:STEP` while it saves this step, and `asked:RANK:STEP` asks its pod to end."""

    def __init__(self, words):
        is_first = all(int(os.environ.get(name) or 0) == 0 for name in (
            "LOCKSTEP_ATTEMPT", "LOCKSTEP_INCARNATION", "LOCKSTEP_PROCESS_START"))
        self._words = words if is_first else []
        self._rank = os.environ["RANK"]

    def after(self, step, seconds=0.0):
        """A step is done. `seconds`: how long it is to take."""
        print(f"process {os.getpid()} did step {step}", flush=True)
        if f"asked:{self._rank}:{step}" in self._words:
            os.kill(os.getppid(), signal.SIGTERM)
        self._die_at(f"{self._rank}:{step}")
        time.sleep(seconds)

    def in_save(self, step):
        """Some of the checkpoint's files are written."""
        print(f"process {os.getpid()} saves step {step}", flush=True)
        self._die_at(f"saves:{self._rank}:{step}")

    def _die_at(self, word):
        if word in self._words:
            os.kill(os.getpid(), signal.SIGKILL)


def tell_end(model, step):
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(str(tensor.tolist()).encode())
    print(f"after {step} steps: weights {digest.hexdigest()[:16]}", flush=True)
