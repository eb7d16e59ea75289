"""Two ranks of PyTorch DDP under torchrun, as its documentation recommends: a checkpoint now and
then, resumed after a restart. Prints each rank's steps with the time, for run.py."""

import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    state = pathlib.Path(sys.argv[1])
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(5408, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    step = 0
    if state.exists():
        saved = torch.load(state)
        model.load_state_dict(saved["model"])
        step = saved["step"]
    replica = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(replica.parameters(), 1e-3)
    inputs, targets = torch.rand(48, 1, 28, 28), torch.randint(0, 10, (48,))
    while step < 100000:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(replica(inputs), targets).backward()
        optimizer.step()
        step += 1
        print(f"rank {rank} pid {os.getpid()} step {step} at {time.time():.6f}", flush=True)
        if step % 20 == 0:
            if rank == 0:
                torch.save({"model": model.state_dict(), "step": step}, f"{state}.tmp")
                os.replace(f"{state}.tmp", state)
            dist.barrier()


main()
