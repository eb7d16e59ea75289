"""States of training as a description in JSON and a list of tensors: for other ranks and files."""

from __future__ import annotations

import collections
import ctypes
import json
from typing import Any, NamedTuple, Union

import torch

from lockstep.errors import InvalidArgument
from lockstep.session import Session

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

# Choice: a description is some hundred bytes a tensor; one of more is no description.
_DESCRIPTION_BYTES_MAX = 1 << 28

Json = Union[None, bool, int, float, str, list[Any], dict[str, Any]]


class FlatState(NamedTuple):
    """`tree` is the state with "@tensor" and a name where tensors were; their names are paths."""

    tree: Json
    tensors: dict[str, torch.Tensor]


def dtype_name(dtype: torch.dtype, beginning: str = "") -> str:
    """As safetensors calls it. Errors: InvalidArgument, after `beginning`."""
    if dtype not in _NAMES:
        names = ", ".join(str(one) for one in _NAMES)
        raise InvalidArgument(f"{beginning}{dtype} found, expected one of {names}")
    return _NAMES[dtype]


def dtype_of(name: str) -> torch.dtype:
    """Of that name in safetensors. Errors: InvalidArgument."""
    if name not in _DTYPES:
        raise InvalidArgument(f"dtype {name} found, expected one of {', '.join(_DTYPES)}")
    return _DTYPES[name]


def flatten(state: Any) -> FlatState:
    """Takes a nest of dicts, lists, tuples, numbers, texts and tensors apart; tensors are not
    copied. Errors: InvalidArgument (anything else, as a sparse tensor, or two tensors of one path;
    names it)."""
    tensors: dict[str, torch.Tensor] = {}
    return FlatState(_flatten(state, "", tensors), tensors)


def _flatten(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Json:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.Tensor):
        if type(value).__name__ == "DTensor":  # which has no memory of its own
            raise InvalidArgument(
                f"state: {path}: DTensor found, expected a plain tensor: keep tensors that are "
                "spread over ranks as parameters of the model (requires_grad=False), which move "
                "with their shard")
        dtype_name(value.dtype, f"state: {path}: ")
        if value.layout != torch.strided:
            raise InvalidArgument(f"state: {path}: {value.layout} found, expected a dense tensor")
        if path in tensors:
            raise InvalidArgument(f"state: two tensors have the name {path}")
        tensors[path] = value.detach()
        return {"@tensor": path}

    def below(key: Any, item: Any) -> Json:
        return _flatten(item, f"{path}/{key}" if path else str(key), tensors)

    if isinstance(value, (list, tuple)):
        items = [below(index, item) for index, item in enumerate(value)]
        return {"@tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, dict) and all(isinstance(key, (str, int)) for key in value):
        kind = "@counter" if isinstance(value, collections.Counter) else "@dict"
        return {kind: [[key, below(key, item)] for key, item in value.items()]}
    raise InvalidArgument(
        f"state: {path}: {type(value).__name__} found, expected a tensor, a number, a string, "
        "None, or a list, tuple or dict of these")


def unflatten(flat: FlatState) -> Any:
    """The state that was taken apart."""
    tree = flat.tree
    if isinstance(tree, list):
        return [unflatten(FlatState(item, flat.tensors)) for item in tree]
    if not isinstance(tree, dict):
        return tree
    kind, content = next(iter(tree.items()))
    if kind == "@tensor":
        return flat.tensors[content]
    if kind == "@tuple":
        return tuple(unflatten(FlatState(item, flat.tensors)) for item in content)
    items = {key: unflatten(FlatState(item, flat.tensors)) for key, item in content}
    return collections.Counter(items) if kind == "@counter" else items


def broadcast_state(
    session: Session[torch.Tensor], state: Any, root: int, timeout: float, is_kept: bool = True
) -> Any:
    """`state` of rank `root` on all ranks; that of others is not looked at. `is_kept`: False: this
    rank keeps none of it, and gets None. Collective; a rank that fails has changed nothing."""
    is_root = session.rank == root
    flat = flatten(state) if is_root else FlatState(None, {})
    text = b""
    if is_root:
        shapes = {
            name: [dtype_name(tensor.dtype), list(tensor.shape)]
            for name, tensor in flat.tensors.items()
        }
        text = json.dumps([flat.tree, shapes]).encode()
    length = torch.tensor([len(text)], dtype=torch.int64)
    session.broadcast(length, root, timeout)
    if not 0 < int(length) <= _DESCRIPTION_BYTES_MAX:
        raise InvalidArgument(
            f"state: a description of {int(length)} bytes found, expected 1 to "
            f"{_DESCRIPTION_BYTES_MAX}")
    description = torch.zeros(int(length), dtype=torch.uint8)
    if is_root:
        description = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    session.broadcast(description, root, timeout)
    tree, shapes = json.loads(raw_bytes(description))
    tensors = {}
    for name, (dtype, shape) in shapes.items():
        tensor = (
            flat.tensors[name].contiguous().cpu()
            if is_root
            else torch.empty(shape, dtype=dtype_of(dtype))
        )
        if tensor.numel() > 0:
            session.broadcast(bytes_of(tensor), root, timeout)
        if is_kept:
            tensors[name] = tensor
    if is_root:
        return state
    return unflatten(FlatState(tree, tensors)) if is_kept else None


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor's memory, not copied. Shapes: result [bytes] of uint8."""
    return tensor.reshape(-1).view(torch.uint8)


def raw_bytes(tensor: torch.Tensor) -> bytes:
    """A copy of a contiguous tensor's memory."""
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
