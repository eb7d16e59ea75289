"""Ranks that add up numbers by torch.distributed on gloo, and one that does not come: arguments are
how ("skip", "data", "compute", "slow"), which rank, and at which step. With "unreported" they
report no steps, and their optimizer takes some."""

import os
import sys
import time

import torch
import torch.distributed as dist

import lockstep

STEPS = 20
SLOW_STEPS = 30
SECONDS_BETWEEN_REPORTS = 8.0  # longer than the limit, so that the court sits


def load_batch():
    os.read(os.pipe()[0], 1)


def compute():
    numbers = torch.ones(64, 64)
    while True:
        numbers = torch.mm(numbers, numbers) / 64


def finish():
    """Others believe that there is one more step."""
    while True:
        time.sleep(0.1)


class Optimizer:
    """Stands for a reporter."""

    def __init__(self):
        weight = torch.nn.Parameter(torch.ones(1))
        weight.grad = torch.ones(1)
        self._optimizer = torch.optim.SGD([weight])

    def report(self, _):
        self._optimizer.step()

    def close(self):
        pass


def train(how, culprit, moment):
    rank = dist.get_rank()
    reporter = Optimizer() if "unreported" in sys.argv else lockstep.Reporter()
    reported_at = 0.0
    steps = SLOW_STEPS if how == "slow" else STEPS
    for step in range(1, steps + 1):
        print(f"rank {rank} begins step {step}", flush=True)
        is_moment = rank == culprit and step == moment
        if is_moment and how == "data":
            load_batch()
        if is_moment and how == "compute":
            compute()
        if rank == culprit and how == "slow":
            time.sleep(1)
        if not (is_moment and how == "skip"):
            dist.all_reduce(torch.ones(8))
        if how != "slow" or time.monotonic() - reported_at > SECONDS_BETWEEN_REPORTS:
            reported_at = time.monotonic()
            reporter.report(lockstep.Progress(step=step, phase=lockstep.Phase.TRAINING))
    if rank == culprit and how == "skip":
        finish()
    reporter.close()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    dist.destroy_process_group()
