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
    """The sentences are those of common/contract/hashed_document.cc. Errors: FileNotFoundError,
    ValueError (it is damaged), OSError."""
    content = read_regular(path, _DOCUMENT_BYTES_MAX)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError(
            f"{path.stem}: not JSON; expected an object with the field sha256") from None
    if not isinstance(document, dict) or "sha256" not in document:
        raise ValueError(f"{path.stem}: the field sha256 is missing")
    expected = document.pop("sha256")
    found = hashlib.sha256(_compact(document)).hexdigest()
    if found != expected:
        raise ValueError(f"{path.stem}: hashes to {found}, expected {expected}")
    return document


def words_of(damage: Exception) -> str:
    """As the built-in trainer says it."""
    if isinstance(damage, OSError) and damage.filename is not None:
        return f"open {damage.filename}: {damage.strerror}"
    return str(damage)


# Of a manifest, in the order in which the built-in trainer misses them.
_FIELDS: tuple[tuple[str, type, str], ...] = (
    ("formatVersion", int, "a whole number"),
    ("jobUid", str, "a string"),
    ("attempt", int, "a whole number"),
    ("epoch", int, "a whole number"),
    ("incarnation", int, "a whole number"),
    ("step", int, "a whole number"),
    ("seed", int, "a whole number"),
    ("worldSize", int, "a whole number"),
    ("created", str, "a string"),
    ("cursor", dict, "an object"),
    ("tensors", dict, "an object"),
)


def check_manifest(manifest: dict[str, Any]) -> None:
    """Errors: ValueError (names the first field that is missing, or of another kind)."""
    for name, kind, expected in _FIELDS:
        found = manifest.get(name)
        if found is None:
            raise ValueError(f"manifest: {name}: missing, expected {expected}")
        if not isinstance(found, kind):
            raise ValueError(f"manifest: {name}: {json.dumps(found)} found, expected {expected}")


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
