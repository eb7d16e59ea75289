"""A data-parallel PyTorch program for Horovod, without any code for Lockstep.

It trains a small network on fixed data as Horovod's own examples do. Rank 0 prints each step's loss
and saves the state every 20 steps. When the program starts, it continues from the saved state.

usage: horovod_torch.py STEPS [FOLDER FOR CHECKPOINTS]
"""

import os
import sys

import horovod.torch as hvd
import torch

SAMPLES = 60  # divides by all numbers of ranks up to six


def main():
    steps = int(sys.argv[1])
    saved = os.path.join(sys.argv[2], "newest.pt") if len(sys.argv) > 2 else None
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    inputs = torch.rand(SAMPLES, 8)
    targets = (inputs.sum(dim=1) > 4).long()
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    begin = 0
    if saved and hvd.rank() == 0 and os.path.exists(saved):
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["step"]
    begin = hvd.broadcast_object(begin, root_rank=0)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    print(f"rank {hvd.rank()} of {hvd.size()}, local {hvd.local_rank()} of {hvd.local_size()}, "
          f"cross {hvd.cross_rank()} of {hvd.cross_size()}, process {os.getpid()}, "
          f"from step {begin}", flush=True)
    loss_function = torch.nn.CrossEntropyLoss()
    own = slice(hvd.rank(), None, hvd.size())
    for step in range(begin, steps):
        optimizer.zero_grad()
        loss = loss_function(model(inputs[own]), targets[own])
        loss.backward()
        optimizer.step()
        mean = hvd.allreduce(loss.detach(), name="loss")
        if hvd.rank() == 0:
            print(f"step {step} loss {mean.item():.6f}", flush=True)
            if saved and step % 20 == 19:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                            "step": step + 1}, saved + ".new")
                os.replace(saved + ".new", saved)
    hvd.shutdown()


main()
