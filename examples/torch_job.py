"""Trains a convolution on the digits with lockstep.torch.Job. Three lines make it a program for
many processes: the sampler, the `with`, and `job.step` in place of `optimizer.step`.
"""

import os
import time

import lockstep
import lockstep.torch
import torch
from torch import nn

from digits import digits

SAMPLES, BATCH, EPOCHS = 6000, 60, 2  # BATCH: samples of all ranks together
STEPS = EPOCHS * SAMPLES // BATCH


def network():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(8 * 36, 10))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dataset = digits(0, SAMPLES)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    sampler = lockstep.torch.Sampler(len(dataset), batch_size=BATCH, epochs=EPOCHS, seed=1)
    loader = torch.utils.data.DataLoader(dataset, batch_sampler=sampler)
    options = lockstep.torch.JobOptions(checkpoint_every=50)
    with lockstep.torch.Job(
            model=model, optimizer=optimizer, sampler=sampler, options=options) as job:
        print(f"process {os.getpid()} is rank {job.rank} of {job.size}", flush=True)
        for inputs, labels in job.batches(loader):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            job.step(loss)
            time.sleep(0.01)  # leaves you time to kill a process
    if job.is_chief:
        print(job.totals)


if __name__ == "__main__":
    lockstep.run(main)
