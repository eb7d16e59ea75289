"""The three networks of the tutorials and a wide one: as a training section for our engine, and as
a user of PyTorch writes them. The same samples, the same first weights."""

import gzip
import math
import pathlib
import struct

import torch
from torch import nn
from torch.nn import functional

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "data" / "mnist"
BATCH = 128
BATCHES = 64  # then they come again
SAMPLES = BATCH * BATCHES


def read_idx(name):
    with gzip.open(DIGITS / name, "rb") as file:
        raw = file.read()
    dimension_count = raw[3]
    shape = struct.unpack(f">{dimension_count}I", raw[4:4 + 4 * dimension_count])
    return torch.frombuffer(bytearray(raw[4 + 4 * dimension_count:]),
                            dtype=torch.uint8).reshape(shape)


def digits():
    images = read_idx("t10k-images-idx3-ubyte.gz")[:SAMPLES].float() / 255
    labels = read_idx("t10k-labels-idx1-ubyte.gz")[:SAMPLES].float()
    return images.reshape(SAMPLES, -1), labels.reshape(SAMPLES, 1)


def line():
    """Points of y = 2 x - 1."""
    x = (torch.arange(SAMPLES) * 37 % 101 / 101).float().reshape(SAMPLES, 1)
    return x, 2 * x - 1


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 32, 3)
        self.hidden = nn.Linear(13 * 13 * 32, 64)
        self.output = nn.Linear(64, 10)

    def forward(self, inputs):
        images = inputs.reshape(-1, 1, 28, 28)
        values = functional.max_pool2d(functional.relu(self.convolution(images)), 2)
        return self.output(functional.relu(self.hidden(values.flatten(1))))

    def take(self, flat):
        """Ours are channels last."""
        kernel, bias, hidden, hidden_bias, output, output_bias = cut(
            flat, [(3, 3, 1, 32), (32,), (13, 13, 32, 64), (64,), (64, 10), (10,)])
        self.load_state_dict({
            "convolution.weight": kernel.permute(3, 2, 0, 1).contiguous(),
            "convolution.bias": bias,
            "hidden.weight": hidden.permute(3, 2, 0, 1).reshape(64, -1).contiguous(),
            "hidden.bias": hidden_bias,
            "output.weight": output.t().contiguous(),
            "output.bias": output_bias,
        })


class Dense(nn.Module):
    """Layers of those widths, ReLU between."""

    def __init__(self, widths):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(a, b) for a, b in zip(widths, widths[1:], strict=False))

    def forward(self, values):
        for layer in self.layers[:-1]:
            values = functional.relu(layer(values))
        return self.layers[-1](values)

    def take(self, flat):
        shapes = [shape for layer in self.layers
                  for shape in ((layer.in_features, layer.out_features), (layer.out_features,))]
        parts = cut(flat, shapes)
        with torch.no_grad():
            for layer, kernel, bias in zip(self.layers, parts[::2], parts[1::2], strict=True):
                layer.weight.copy_(kernel.t())
                layer.bias.copy_(bias)


def cut(flat, shapes):
    sizes = [math.prod(shape) for shape in shapes]
    return [part.reshape(shape) for part, shape in zip(flat.split(sizes), shapes, strict=True)]


def dense(units, activation=None):
    layer = {"type": "Dense", "units": units}
    return {**layer, "activation": activation} if activation else layer


class Network:
    def __init__(self, name, layers, module, *, is_regression=False):
        self.name = name
        self.layers = layers
        self.module = module  # makes one
        self.is_regression = is_regression
        self.inputs, self.labels = line() if is_regression else digits()

    def section(self, precision):
        """What our engine is made by."""
        return {
            "seed": 1,
            "steps": 1,
            "globalBatchSize": BATCH,
            "precision": precision,
            "model": {"inputShape": [1] if self.is_regression else [28, 28, 1],
                      "layers": self.layers},
            "loss": {"type": "MeanSquaredError"} if self.is_regression else {
                "type": "SparseCategoricalCrossentropy", "fromLogits": True},
            "optimizer": {"type": "SGD", "learningRate": 0.2} if self.is_regression else {
                "type": "Adam", "learningRate": 0.001},
            "dataset": {"format": "idx", "images": "none", "labels": "none"},
        }

    def targets(self):
        return self.labels if self.is_regression else self.labels.reshape(-1).long()

    def loss(self, found, wanted):
        if self.is_regression:
            return functional.mse_loss(found, wanted)
        return functional.cross_entropy(found, wanted)

    def optimizer(self, module):
        if self.is_regression:
            return torch.optim.SGD(module.parameters(), lr=0.2)
        return torch.optim.Adam(module.parameters(), lr=0.001)

    def losses(self, weights, count):
        """Of the first steps on the CPU, from our first weights."""
        module = self.module()
        module.take(weights)
        optimizer = self.optimizer(module)
        targets = self.targets()
        losses = []
        for step in range(count):
            if not self.is_regression:
                # Keras's epsilon, and ours, stands after the bias correction, PyTorch's before it.
                optimizer.param_groups[0]["eps"] = 1e-7 / math.sqrt(1 - 0.999 ** (step + 1))
            part = slice(step % BATCHES * BATCH, (step % BATCHES + 1) * BATCH)
            optimizer.zero_grad()
            loss = self.loss(module(self.inputs[part]), targets[part])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses


TUTORIALS = [
    Network("convolution", [{"type": "Conv2D", "filters": 32, "kernelSize": 3,
                             "activation": "relu"},
                            {"type": "MaxPooling2D", "poolSize": 2}, {"type": "Flatten"},
                            dense(64, "relu"), dense(10)], Convolution),
    Network("dense", [{"type": "Flatten"}, dense(128, "relu"), dense(10)],
            lambda: Dense([784, 128, 10])),
    Network("line", [dense(1)], lambda: Dense([1, 1]), is_regression=True),
]
# 20 million weights: 240 MB with Adam's.
WIDE = Network("wide", [{"type": "Flatten"}, dense(4096, "relu"), dense(4096, "relu"), dense(10)],
               lambda: Dense([784, 4096, 4096, 10]))
