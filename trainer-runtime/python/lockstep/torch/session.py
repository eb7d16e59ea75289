"""Sessions for tensors in the host's memory."""

from __future__ import annotations

from typing import Optional

import torch

from lockstep.errors import InvalidArgument
from lockstep.library import DataType
from lockstep.session import Memory
from lockstep.session import Session as _Session

_TYPES = {
    torch.uint8: DataType.UINT8,
    torch.int32: DataType.INT32,
    torch.int64: DataType.INT64,
    torch.float32: DataType.FLOAT32,
    torch.float64: DataType.FLOAT64,
    torch.float16: DataType.FLOAT16,
    torch.bfloat16: DataType.BFLOAT16,
}


def data_type_of(dtype: torch.dtype, name: str) -> DataType:
    """As the library calls it. Errors: InvalidArgument, which calls the tensor `name`."""
    data_type = _TYPES.get(dtype)
    if data_type is None:
        names = ", ".join(str(one) for one in _TYPES)
        raise InvalidArgument(f"{name}: {dtype} found, expected one of {names}")
    return data_type


def torch_dtype_of(data_type: DataType) -> torch.dtype:
    """As torch calls it."""
    return next(dtype for dtype, one in _TYPES.items() if one == data_type)


class Session(_Session[torch.Tensor]):
    """A session for torch tensors, which must be dense, contiguous and in the host's memory.
    Autograd does not record the session's calls."""

    def _memory(self, array: torch.Tensor, name: str, is_written: bool) -> Memory:
        if not isinstance(array, torch.Tensor):
            raise InvalidArgument(f"{name}: {type(array).__name__} found, expected a tensor")
        if array.device.type != "cpu" or array.layout != torch.strided:
            raise InvalidArgument(
                f"{name}: a tensor on {array.device}, {array.layout} found, expected a dense "
                "tensor on the CPU")
        data_type = data_type_of(array.dtype, name)
        if not array.is_contiguous():
            raise InvalidArgument(
                f"{name}: the tensor is not contiguous; pass a copy (Tensor.contiguous)")
        return Memory(array.data_ptr(), array.numel(), data_type)

    def _shape(self, array: torch.Tensor) -> tuple[int, ...]:
        return tuple(array.shape)

    def _empty(self, like: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.empty(shape, dtype=like.dtype)


def open(plan: Optional[str] = None, catch_stop: bool = False) -> Session:
    """Opens the session of this process. Arguments and errors: see `lockstep.Session`."""
    return Session(plan, catch_stop)
