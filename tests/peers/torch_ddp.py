"""A data-parallel PyTorch program that knows nothing of Lockstep.

It finds its peers through RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT alone, trains a small
network on fixed data with gloo, and rank 0 prints each step's loss.
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    inputs = torch.rand(64, 8)
    targets = (inputs.sum(dim=1) > 4).long()
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss_function = torch.nn.CrossEntropyLoss()
    for step in range(20):
        optimizer.zero_grad()
        loss = loss_function(model(inputs[rank::world_size]), targets[rank::world_size])
        loss.backward()
        optimizer.step()
        mean = loss.detach() / world_size
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step} loss {mean.item():.9f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
