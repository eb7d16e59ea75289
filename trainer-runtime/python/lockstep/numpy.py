"""Sessions on NumPy arrays."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from lockstep.errors import InvalidArgument
from lockstep.library import DataType
from lockstep.session import Memory
from lockstep.session import Session as _Session

__all__ = ["Session", "open"]

_TYPES = {
    "uint8": DataType.UINT8,
    "int32": DataType.INT32,
    "int64": DataType.INT64,
    "float32": DataType.FLOAT32,
    "float64": DataType.FLOAT64,
    "float16": DataType.FLOAT16,
    "bfloat16": DataType.BFLOAT16,  # of ml_dtypes, which registers it with NumPy
}

AnyArray = npt.NDArray[Any]


def data_type_of(dtype: np.dtype[Any], name: str) -> DataType:
    """The library's type for `dtype`. Errors: InvalidArgument, which calls the array `name`."""
    data_type = _TYPES.get(dtype.name) if dtype.isnative else None
    if data_type is None:
        raise InvalidArgument(
            f"{name}: dtype {dtype.str} found, expected one of {', '.join(_TYPES)}, in the "
            "machine's byte order")
    return data_type


def numpy_dtype_of(data_type: DataType) -> np.dtype[Any]:
    """NumPy's type for `data_type`."""
    return np.dtype(next(name for name, one in _TYPES.items() if one == data_type))


class Session(_Session[AnyArray]):
    """A session for NumPy arrays, which must be contiguous and of a type that can be reduced."""

    def _memory(self, array: AnyArray, name: str, is_written: bool) -> Memory:
        if not isinstance(array, np.ndarray):
            raise InvalidArgument(f"{name}: {type(array).__name__} found, expected an ndarray")
        data_type = data_type_of(array.dtype, name)
        if not array.flags.c_contiguous:
            raise InvalidArgument(
                f"{name}: the array is not contiguous in C order; pass a copy "
                "(numpy.ascontiguousarray)")
        if is_written and not array.flags.writeable:
            raise InvalidArgument(f"{name}: the array is read-only")
        return Memory(array.ctypes.data, array.size, data_type)

    def _shape(self, array: AnyArray) -> tuple[int, ...]:
        return array.shape

    def _empty(self, like: AnyArray, shape: tuple[int, ...]) -> AnyArray:
        return np.empty(shape, like.dtype)


def open(plan: Optional[str] = None, catch_stop: bool = False) -> Session:
    """Opens the session of this process. Arguments and errors: see `lockstep.Session`."""
    return Session(plan, catch_stop)
