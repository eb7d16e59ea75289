"""The network of engine_steps.cc as a PyTorch user writes it: alone, or with DDP over gloo.

Run by run.py with Debian's python3-torch. With WORLD_SIZE > 1 in the environment every rank takes
its share of each global batch. Rank 0 prints one JSON line.
"""

import argparse
import gzip
import json
import math
import os
import struct
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

TEST_SAMPLES = 1000
SHAPES = [(3, 3, 1, 32), (32,), (13 * 13 * 32, 64), (64,), (64, 10), (10,)]


def read_idx(path):
    with gzip.open(path, "rb") as file:
        raw = file.read()
    dimension_count = raw[3]
    shape = struct.unpack(f">{dimension_count}I", raw[4 : 4 + 4 * dimension_count])
    values = torch.frombuffer(bytearray(raw[4 + 4 * dimension_count :]), dtype=torch.uint8)
    return values.reshape(shape)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 32, 3)
        self.hidden = nn.Linear(13 * 13 * 32, 64)
        self.output = nn.Linear(64, 10)

    def forward(self, images):
        values = functional.max_pool2d(functional.relu(self.convolution(images)), 2)
        values = functional.relu(self.hidden(values.flatten(1)))
        return self.output(values)


def load_weights(network, path):
    """Takes the parameters that engine_steps wrote, channels last, into PyTorch's order of axes."""
    with open(path, "rb") as file:
        flat = torch.frombuffer(bytearray(file.read()), dtype=torch.float32)
    parts = [
        values.reshape(shape)
        for values, shape in zip(flat.split([torch.Size(s).numel() for s in SHAPES]), SHAPES)
    ]
    hidden = parts[2].reshape(13, 13, 32, 64).permute(3, 2, 0, 1).reshape(64, -1)
    state = {
        "convolution.weight": parts[0].permute(3, 2, 0, 1).contiguous(),
        "convolution.bias": parts[1],
        "hidden.weight": hidden,
        "hidden.bias": parts[3],
        "output.weight": parts[4].t().contiguous(),
        "output.bias": parts[5],
    }
    network.load_state_dict(state)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--passes", type=int, default=3)
    options = parser.parse_args()

    torch.set_num_threads(1)
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    images = read_idx(f"{options.data}/t10k-images-idx3-ubyte.gz").unsqueeze(1).float() / 255
    labels = read_idx(f"{options.data}/t10k-labels-idx1-ubyte.gz").long()
    train_count = len(images) - TEST_SAMPLES

    network = Network()
    load_weights(network, options.weights)
    model = network
    if world_size > 1:
        dist.init_process_group("gloo")
        model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    share = options.batch // world_size
    steps = train_count // options.batch
    passes = []
    update = 0
    for _ in range(options.passes):
        loss_sum = torch.zeros(1)
        start, cpu_start = time.monotonic(), time.process_time()
        for step in range(steps):
            update += 1
            # Keras's epsilon stands after the bias correction, PyTorch's before it.
            optimizer.param_groups[0]["eps"] = 1e-7 / math.sqrt(1 - 0.999**update)
            begin = step * options.batch + rank * share
            optimizer.zero_grad()
            scores = model(images[begin : begin + share])
            loss = functional.cross_entropy(scores, labels[begin : begin + share])
            loss.backward()
            optimizer.step()
            loss_sum += loss.detach()
        seconds = time.monotonic() - start
        cpu_seconds = time.process_time() - cpu_start
        if world_size > 1:
            dist.all_reduce(loss_sum)
        mean_loss = loss_sum.item() / steps / world_size
        passes.append({"stepsPerSecond": steps / seconds, "loss": mean_loss,
                       "cpuMs": cpu_seconds * 1e3 / steps})

    with torch.no_grad():
        hits = network(images[train_count:]).argmax(1) == labels[train_count:]
    if rank == 0:
        result = {
            "engine": f"torch {torch.__version__}",
            "passes": passes,
            "testAccuracy": hits.float().mean().item(),
        }
        print(json.dumps(result), flush=True)
    if world_size > 1:
        dist.barrier()  # torch may abort at exit when one rank leaves first
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
