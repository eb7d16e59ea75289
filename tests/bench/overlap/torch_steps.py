"""The network of overlap_steps.cc with PyTorch's DDP over gloo: one rank of two.

Rank 0 prints one JSON line: milliseconds of a step alone and of one with DDP, round by round.
"""

import argparse
import datetime
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

INPUT_WIDTH = 784
CLASS_COUNT = 10


def network(hidden):
    widths = [INPUT_WIDTH, *hidden]
    layers = []
    for before, after in zip(widths, hidden):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], CLASS_COUNT))


def step(model, optimizer, images, labels):
    optimizer.zero_grad(set_to_none=False)
    functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def time_of(model, optimizer, batch, steps):
    """Milliseconds of a step, of the slower rank."""
    dist.barrier()
    start = time.monotonic()
    for _ in range(steps):
        step(model, optimizer, *batch)
    took = torch.tensor([(time.monotonic() - start) * 1e3 / steps])
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return took.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", required=True)
    parser.add_argument("--hidden", type=int, nargs="+", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://{options.address}:{options.port}",
                            rank=options.rank, world_size=2,
                            timeout=datetime.timedelta(seconds=60))
    torch.manual_seed(options.rank)
    batch = (torch.rand(options.batch, INPUT_WIDTH),
             torch.randint(0, CLASS_COUNT, (options.batch,)))
    alone = network(options.hidden)
    together = DistributedDataParallel(network(options.hidden))
    kinds = {"computeMs": (alone, torch.optim.Adam(alone.parameters())),
             "stepMs": (together, torch.optim.Adam(together.parameters()))}
    rounds = [{name: time_of(model, optimizer, batch, options.steps)
               for name, (model, optimizer) in kinds.items()}
              for _ in range(options.rounds + 1)]
    dist.barrier()  # torch may abort at exit when one rank leaves first
    if options.rank == 0:
        print(json.dumps({"engine": f"torch {torch.__version__}", "rounds": rounds[1:]}),
              flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
