"""A small convolution on the digits by lockstep.torch.Job. Arguments: data epochs, samples, seconds
for each step, and moments at which a rank kills itself, as PLACE:RANK:STEP. The places:

    forward      before the model has seen the batch
    reduce       when the first gradients are on their way
    update       when all sums have arrived, before they are applied
    after        when the step is applied
    checkpoint   (of rank 0) when one is written, before it appears

LOADER_WORKERS: processes that read for each rank, which stay for the whole run. CHECKPOINT_EVERY:
steps, 5 by default.
"""

import gzip
import hashlib
import os
import pathlib
import signal
import sys
import time

import torch
from torch import nn

import lockstep
import lockstep.torch

MNIST = pathlib.Path(__file__).resolve().parents[2] / "examples" / "data" / "mnist"


def digits(count):
    images = gzip.decompress((MNIST / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((MNIST / "t10k-labels-idx1-ubyte.gz").read_bytes())[8:]
    inputs = torch.frombuffer(bytearray(images[: count * 784]), dtype=torch.uint8)
    targets = torch.frombuffer(bytearray(labels[:count]), dtype=torch.uint8)
    return torch.utils.data.TensorDataset(
        inputs.float().div(255).reshape(-1, 1, 28, 28), targets.long())


class Moments:
    """When this process ends itself: each once in a run, whatever process stands for the rank."""

    def __init__(self, words):
        self.words = words
        self.folder = pathlib.Path(os.environ["LOCKSTEP_CHECKPOINT_DIR"]).parent

    def come(self, place, rank, step):
        for word in self.words:
            its_place, its_rank, its_step = word.split(":")
            mark = self.folder / f"died-{word}"
            # Later, where it did not come to it: checkpoints are written beside the training.
            is_due = (its_place, int(its_rank)) == (place, rank) and int(its_step) <= step
            if is_due and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    def come_before(self, owner, name, place, job):
        """Where `name` of `owner` is called."""
        original = getattr(owner, name)

        def dying(*arguments, **named):
            self.come(place, job.rank, job.step_count)
            return original(*arguments, **named)

        setattr(owner, name, dying)


def main():
    epochs, count, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    moments = Moments(sys.argv[4:])
    torch.set_num_threads(1)
    torch.manual_seed(int(os.environ["RANK"]))  # other weights on each: rank 0 gives its own to all
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(8 * 36, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [10, 20], 0.5)
    sampler = lockstep.torch.Sampler(count, 100, epochs=epochs, seed=7)
    workers = int(os.environ.get("LOADER_WORKERS", "0"))
    loader = torch.utils.data.DataLoader(
        digits(count), batch_sampler=sampler, num_workers=workers, persistent_workers=workers > 0)
    job = lockstep.torch.Job(
        model=model, optimizer=optimizer, sampler=sampler, extra={"scheduler": scheduler},
        options=lockstep.torch.JobOptions(
            checkpoint_every=int(os.environ.get("CHECKPOINT_EVERY", "5"))))
    epoch = None
    moments.come_before(job.session, "all_reduce", "reduce", job)
    moments.come_before(job.optimizer, "step", "update", job)
    moments.come_before(job._keeper.store._files, "write", "checkpoint", job)
    loss_function = nn.CrossEntropyLoss()
    with job:
        for inputs, labels in job.batches(loader):
            if job.meeting.epoch != epoch:
                epoch = job.meeting.epoch
                print(f"process {os.getpid()} is rank {job.rank} of {job.size} at epoch {epoch}, "
                      f"step {job.step_count}", flush=True)
            step = job.step_count
            time.sleep(pause)
            moments.come("forward", job.rank, step)
            loss = loss_function(model(inputs), labels)
            loss.backward()
            if job.step(loss):
                scheduler.step()
                moments.come("after", job.rank, step)
        digest = hashlib.sha256()
        for tensor in [*model.state_dict().values(), torch.tensor(scheduler.last_epoch)]:
            digest.update(str(tensor.tolist()).encode())
        totals = job.totals
        print(f"after {job.step_count} steps: lost {totals.lost} repeated {totals.repeated} "
              f"consumed {totals.consumed} weights {digest.hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    lockstep.run(main)
