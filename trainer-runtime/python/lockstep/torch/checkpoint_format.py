"""The files of a checkpoint: hashed documents and tensors (docs/reference/checkpoints.md)."""

from __future__ import annotations

import hashlib
import json
import pathlib
from typing import Any

import torch

from lockstep.torch.state import FlatState, dtype_name, dtype_of, raw_bytes

_TREE = "lockstep.torch"  # the description of the state, in the file's metadata
LEDGER = "lockstep/ledger"
OWN_LEDGER = "sampler/ledger"  # its path in the state


def _compact(document: dict[str, Any]) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def dump_hashed(document: dict[str, Any]) -> bytes:
    """With a member `sha256`, the hash of all others."""
    hashed = {**document, "sha256": hashlib.sha256(_compact(document)).hexdigest()}
    return json.dumps(hashed, sort_keys=True, indent=2, ensure_ascii=False).encode()


def read_hashed(path: pathlib.Path) -> dict[str, Any]:
    """Errors: FileNotFoundError, ValueError (it is damaged)."""
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
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
