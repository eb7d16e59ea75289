"""A program for Horovod's elastic mode that runs without Horovod: only one import is changed. All
ranks of a job train a small convolution on the digits. If a rank is lost, Lockstep replaces it, the
other ranks keep their processes, and all continue after the last commit.

    lockstep run horovod_elastic.yaml

Arguments: the number of steps, and the milliseconds that each step takes at least.
"""

import hashlib
import os
import sys
import time

import torch
from torch import nn

import lockstep.horovod.torch as hvd  # instead of: import horovod.torch as hvd
from digits import digits

SAMPLES = 960
GLOBAL_BATCH = 60  # of all ranks together


def take_step(state, inputs, labels):
    state.optimizer.zero_grad()
    loss = nn.functional.cross_entropy(state.model(inputs), labels)
    loss.backward()
    state.optimizer.step()
    return hvd.allreduce(loss.detach(), name="loss").item()


@hvd.elastic.run
def train(state, loader, steps, pause):
    print(f"process {os.getpid()} is rank {hvd.rank()} of {hvd.size()} at epoch {state.epoch}, "
          f"step {state.step}", flush=True)
    while state.step < steps:
        for inputs, labels in loader:
            time.sleep(pause)
            loss = take_step(state, inputs, labels)
            if hvd.rank() == 0:
                print(f"step {state.step} loss {loss:.6f}", flush=True)
            state.sampler.record_batch(state.step, len(labels))
            state.step += 1
            state.commit()
            if state.step == steps:
                break
        else:
            state.epoch += 1
            state.sampler.set_epoch(state.epoch)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    pause = (int(sys.argv[2]) if len(sys.argv) > 2 else 10) / 1000
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(8 * 36, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    dataset = digits(0, SAMPLES)
    sampler = hvd.elastic.ElasticSampler(dataset, seed=7)
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=GLOBAL_BATCH // hvd.size(), sampler=sampler)
    state = hvd.elastic.TorchState(
        model=model, optimizer=optimizer, sampler=sampler, epoch=0, step=0)
    train(state, loader, steps, pause)
    digest = hashlib.sha256(str([one.tolist() for one in model.parameters()]).encode())
    print(f"after {steps} steps: weights {digest.hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    main()
