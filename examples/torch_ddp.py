"""A PyTorch program with DistributedDataParallel, as for torchrun, without any code for Lockstep.
It finds its peers through RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. It keeps a checkpoint in
the folder CHECKPOINTS, and continues from this checkpoint when it starts again.
"""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 200


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    inputs = torch.rand(64, 8)
    targets = (inputs.sum(dim=1) > 4).long()
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss_function = torch.nn.CrossEntropyLoss()
    newest = os.path.join(os.environ["CHECKPOINTS"], "newest.pt")
    begin = 0
    if os.path.exists(newest):
        saved = torch.load(newest)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        begin = saved["step"]
    print(f"rank {rank} of {world_size} begins with step {begin}", flush=True)
    dist.barrier()  # all ranks have read the checkpoint before rank 0 writes a new one
    for step in range(begin, STEPS):
        optimizer.zero_grad()
        loss = loss_function(model(inputs[rank::world_size]), targets[rank::world_size])
        loss.backward()
        optimizer.step()
        time.sleep(0.01)  # leaves you time to kill a process
        if step % 10 == 9:
            mean = loss.detach() / world_size
            dist.all_reduce(mean)
            if rank == 0:
                print(f"step {step + 1} loss {mean.item():.9f}", flush=True)
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                            "step": step + 1}, newest + ".new")
                os.replace(newest + ".new", newest)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
