"""The digits of data/mnist as a data set for torch, for the programs beside this file."""

import gzip
import pathlib

import torch

MNIST = pathlib.Path(__file__).resolve().parent / "data" / "mnist"
# What stands before the values in a file of images, and in one of labels.
IMAGES_HEADER_BYTES, LABELS_HEADER_BYTES = 16, 8


def digits(begin, end):
    """Those from `begin` to before `end` of 10,000: images of 0 to 1, [1, 28, 28], and labels."""
    images = gzip.decompress((MNIST / "t10k-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((MNIST / "t10k-labels-idx1-ubyte.gz").read_bytes())
    inputs = torch.frombuffer(bytearray(images[IMAGES_HEADER_BYTES:]), dtype=torch.uint8)
    inputs = inputs.reshape(-1, 1, 28, 28)[begin:end].float().div(255)
    targets = torch.frombuffer(bytearray(labels[LABELS_HEADER_BYTES:]), dtype=torch.uint8)
    return torch.utils.data.TensorDataset(inputs, targets[begin:end].long())
