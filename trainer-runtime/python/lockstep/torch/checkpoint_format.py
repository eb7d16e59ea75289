"""The files of a checkpoint: hashed documents and tensors (docs/reference/checkpoints.md)."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pathlib
import stat
from typing import Any

import torch

from lockstep.torch.state import FlatState, dtype_name, dtype_of, raw_bytes

_TREE = "lockstep.torch"  # the description of the state, in the file's metadata
LEDGER = "lockstep/ledger"
OWN_LEDGER = "sampler/ledger"  # its path in the state


_DOCUMENT_BYTES_MAX = 1 << 20  # that of the built-in trainer: a thousand times a real one


def _compact(document: dict[str, Any]) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def dump_hashed(document: dict[str, Any]) -> bytes:
    """With a member `sha256`, the hash of all others."""
    hashed = {**document, "sha256": hashlib.sha256(_compact(document)).hexdigest()}
    return json.dumps(hashed, sort_keys=True, indent=2, ensure_ascii=False).encode()


def read_regular(path: pathlib.Path, bytes_max: int) -> bytes:
    """The content of a file. Nothing else is waited for, and no more than `bytes_max` is read.
    Errors: FileNotFoundError, ValueError (it is longer, or no file), OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise ValueError(f"{path} is a socket, expected a file") from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe or a device"
            raise ValueError(f"{path} is {what}, expected a file")
        if found.st_size > bytes_max:
            raise ValueError(f"{path} has {found.st_size} bytes, expected at most {bytes_max}")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(found.st_size)
    finally:
        os.close(descriptor)


def read_hashed(path: pathlib.Path) -> dict[str, Any]:
    """Errors: FileNotFoundError, ValueError (it is damaged), OSError."""
    content = read_regular(path, _DOCUMENT_BYTES_MAX)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path} is no object")
    expected = document.pop("sha256", None)
    if hashlib.sha256(_compact(document)).hexdigest() != expected:
        raise ValueError(f"{path}: its hash is not that of its content")
    return document


def encode(tensors: dict[str, torch.Tensor], tree: str) -> bytes:
    """The safetensors file: 8 bytes of length, a header of JSON, the values."""
    header: dict[str, Any] = {"__metadata__": {"format": "lockstep", _TREE: tree}}
    parts = []
    offset = 0
    for name in sorted(tensors):
        content = raw_bytes(tensors[name])
        header[name] = {"dtype": dtype_name(tensors[name].dtype),
                        "shape": list(tensors[name].shape),
                        "data_offsets": [offset, offset + len(content)]}
        parts.append(content)
        offset += len(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def decode(raw: bytes) -> FlatState:
    """What `encode` has made."""
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    tree = json.loads(header.pop("__metadata__")[_TREE])
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(bytearray(raw[start + begin : start + end]), dtype=torch.uint8) \
            if end > begin else torch.empty(0, dtype=torch.uint8)
        tensor = flat.view(dtype_of(entry["dtype"])).reshape(entry["shape"])
        tensors[OWN_LEDGER if name == LEDGER else name] = tensor
    return FlatState(tree, tensors)
