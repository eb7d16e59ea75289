"""A model in shards (FSDP2), which communicates through Lockstep's backend of torch.distributed.
Only two lines name Lockstep. Each rank saves its shards. A gang that restarts continues from them,
even with a different number of ranks.
"""

import os
import pathlib

import lockstep.torch.distributed  # registers the backend "lockstep"
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STEPS, SAVE_EVERY, WIDTH = 60, 20, 64


def sharded_model(mesh):
    torch.manual_seed(1)
    blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(4)]
    model = nn.Sequential(*blocks, nn.Linear(WIDTH, 1))
    for block in blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def save(folder, step, model, optimizer):
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=folder / f"step-{step:04}")


def load_newest(folder, model, optimizer):
    """Returns the number of completed steps. A checkpoint with .metadata is complete."""
    whole = sorted(path.parent for path in folder.glob("step-*/.metadata"))
    if not whole:
        return 0
    weights, moments = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=whole[-1])
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    return int(whole[-1].name.removeprefix("step-"))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("lockstep")
    rank, size = dist.get_rank(), dist.get_world_size()
    model = sharded_model(init_device_mesh("cpu", (size,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    folder = pathlib.Path(os.environ["LOCKSTEP_CHECKPOINT_DIR"])
    begin = load_newest(folder, model, optimizer)
    own = sum(parameter.to_local().numel() for parameter in model.parameters())
    whole = sum(parameter.numel() for parameter in model.parameters())
    print(f"rank {rank} of {size} holds {own} of {whole} weights, step {begin}", flush=True)
    for step in range(begin, STEPS):
        inputs = torch.randn(32, WIDTH, generator=torch.Generator().manual_seed(step * size + rank))
        loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % SAVE_EVERY == 0:
            save(folder, step + 1, model, optimizer)
            dist.all_reduce(mean := loss.detach() / size)
            if rank == 0:
                print(f"step {step + 1} loss {mean.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
