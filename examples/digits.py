"""The digits of data/mnist as a data set for torch, for the other programs in this folder."""

import gzip
import pathlib

import torch

MNIST = pathlib.Path(__file__).resolve().parent / "data" / "mnist"
# The size of the header before the values, in a file of images and in a file of labels.
IMAGES_HEADER_BYTES, LABELS_HEADER_BYTES = 16, 8


def digits(begin, end):
    """The digits `begin` to `end` - 1 of 10,000: images [1, 28, 28] from 0 to 1, and labels."""
    images = gzip.decompress((MNIST / "t10k-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((MNIST / "t10k-labels-idx1-ubyte.gz").read_bytes())
    inputs = torch.frombuffer(bytearray(images[IMAGES_HEADER_BYTES:]), dtype=torch.uint8)
    inputs = inputs.reshape(-1, 1, 28, 28)[begin:end].float().div(255)
    targets = torch.frombuffer(bytearray(labels[LABELS_HEADER_BYTES:]), dtype=torch.uint8)
    return torch.utils.data.TensorDataset(inputs, targets[begin:end].long())
