"""Horovod's calls on NumPy arrays, on which the calls of other libraries are built. All ranks make
the same calls in the same order with the same names. Errors: InvalidArgument (only this call fails,
on this rank), and those of `World`."""

from __future__ import annotations

import math
import zlib
from typing import Any, Optional, Sequence

import numpy as np
import numpy.typing as npt

from lockstep.horovod import process
from lockstep.horovod.arguments import (
    Product,
    Reduction,
    check_elements,
    check_root,
    own_share,
    rows_text,
    splits_of,
)
from lockstep.horovod.header import Call, Kind
from lockstep.horovod.world import Begun, World
from lockstep.library import DataType
from lockstep.numpy import Session, data_type_of, numpy_dtype_of

Array = npt.NDArray[Any]


class NumpyArrays:
    """As `Arrays` has it."""

    def of_bytes(self, raw: bytes) -> Array:
        return np.frombuffer(bytearray(raw), dtype=np.uint8)

    def raw_bytes(self, array: Array) -> bytes:
        return array.tobytes()

    def zeros(self, count: int, data_type: DataType) -> Array:
        return np.zeros(count, numpy_dtype_of(data_type))

    def padded(self, own: Array, length: int) -> Array:
        padded = np.zeros(length, np.uint8)
        padded[: own.size] = own
        return padded

    def total(self, array: Array) -> float:
        if array.dtype.kind in "iub":
            return 0.0
        with np.errstate(invalid="ignore", over="ignore"):
            return float(array.sum(dtype=np.float32 if array.itemsize < 4 else None))

    def cut(self, blocks: Array, lengths: Sequence[int]) -> list[Array]:
        return [block[:length] for block, length in zip(blocks, lengths)]


def world() -> World[Array]:
    """That of this process. Errors: InvalidArgument (before `init`, after `shutdown`)."""
    return process.current_with(NumpyArrays)


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Opens the session of this process, and waits for all ranks. A second call does nothing.
    Errors: those of `process.init`."""
    process.init(
        lambda seconds: World(Session(plan="lockstep.horovod 1"), NumpyArrays(), seconds),
        comm, process_sets)


def reduce(
    arrays: Sequence[Array], reduction: Reduction, name: Optional[str], kind: str = "allreduce"
) -> list[Array]:
    """New arrays, those of one type in one call. `kind`: of a call without a name."""
    here = world()
    name = here.name(kind, name)
    groups: dict[np.dtype[Any], list[int]] = {}
    for place, array in enumerate(arrays):
        groups.setdefault(array.dtype, []).append(place)
    parts = [_begin([arrays[place] for place in places], reduction, name)
             for places in groups.values()]
    reduced: dict[int, Array] = {}
    for places, (begun, flat) in zip(groups.values(), parts):
        if begun is not None:
            here.wait(begun)
        if reduction.postscale != 1.0:
            flat *= np.asarray(reduction.postscale, flat.dtype)
        ends = np.cumsum([arrays[place].size for place in places])
        for place, end in zip(places, ends):
            shape = arrays[place].shape
            reduced[place] = flat[end - arrays[place].size : end].reshape(shape)
    return [reduced[place] for place in range(len(arrays))]


def _begin(
    arrays: Sequence[Array], reduction: Reduction, name: str
) -> tuple[Optional[Begun], Array]:
    """Arrays of one type; the second is theirs side by side, reduced once the first has ended."""
    dtype = arrays[0].dtype
    shapes = [list(array.shape) for array in arrays]
    flat = np.empty(sum(array.size for array in arrays), dtype)
    what = f"{dtype.name} {shapes[0]}, {reduction}"
    if len(arrays) > 1:
        plan = zlib.crc32(repr(shapes).encode())
        what = f"{dtype.name} [{flat.size}] of {len(arrays)}, {reduction}, plan {plan:08x}"
    end = 0
    for array in arrays:
        flat[end : end + array.size] = array.reshape(-1)
        end += array.size
    if reduction.prescale != 1.0:
        flat *= np.asarray(reduction.prescale, dtype)
    call = Call(Kind.ALLREDUCE, name, what, reduction.op.own, data_type_of(dtype, name),
                elements=flat.size)
    if reduction.op is Product:
        return None, _product(call, flat)
    return world().begin_all_reduce(call, flat), flat


def _product(call: Call, flat: Array) -> Array:
    """In the order of ranks."""
    product = np.ones_like(flat)
    for one in world().gather(call._replace(length=flat.nbytes), _bytes_of(flat)):
        product *= _typed(one, flat.dtype)
    return product


def gather_rows(array: Array, name: Optional[str]) -> Array:
    """The rows of all ranks one below the other, in the order of ranks; their numbers may differ.
    Shapes: array [rows, ...]; result [sum of rows, ...]."""
    name = world().name("allgather", name)
    _check_elements("allgather", array, name)
    own = _bytes_of(array)
    what = rows_text(array.dtype.name, array.shape, name)
    call = Call(Kind.ALLGATHER, name, what, length=own.size)
    return _rows(world().gather(call, own), array)


def broadcast(arrays: Sequence[Array], root_rank: int, name: Optional[str]) -> list[Array]:
    """Those of rank `root_rank`, new ones, in one call."""
    name = world().name("broadcast", name)
    check_root(root_rank, name)
    for array in arrays:
        _check_elements("broadcast", array, name)
    if len(arrays) == 1:
        what = f"{arrays[0].dtype.name} {list(arrays[0].shape)}"
    else:
        plan = repr([(array.dtype.name, array.shape) for array in arrays])
        what = f"{len(arrays)} variables, plan {zlib.crc32(plan.encode()):08x}"
    memory = np.concatenate([_bytes_of(array) for array in arrays] or [np.empty(0, np.uint8)])
    call = Call(Kind.BROADCAST, name, what, root=root_rank, length=memory.size)
    world().broadcast(call, lambda _: memory)
    received, end = [], 0
    for array in arrays:
        block = memory[end : end + array.nbytes]
        received.append(_typed(block, array.dtype).reshape(array.shape))
        end += array.nbytes
    return received


def all_to_all(
    array: Array, splits: Optional[Array], name: Optional[str]
) -> tuple[Array, Array]:
    """Rows for each rank: `splits[r]` of them, next in `array`, for rank r; equally many where no
    splits are given. The rows of all ranks for this one, and how many came from each. All rows
    travel to all. Shapes: array [rows, ...]; results [any, ...], [size] of int32."""
    here = world()
    name = here.name("alltoall", name)
    _check_elements("alltoall", array, name)
    given = np.array(splits_of(
        None if splits is None else np.asarray(splits).astype(np.int64).tolist(),
        array.shape[0] if array.ndim > 0 else 0, name), np.int64)
    own = np.concatenate([_bytes_of(given), _bytes_of(array)])
    what = rows_text(array.dtype.name, array.shape, name)
    call = Call(Kind.ALLTOALL, name, what, length=own.size)
    blocks, counts = [], []
    row_bytes = math.prod(array.shape[1:]) * array.itemsize
    for block in here.gather(call, own):
        theirs = _typed(block[: given.nbytes], given.dtype)
        begin = given.nbytes + row_bytes * int(theirs[: here.rank].sum())
        blocks.append(block[begin : begin + row_bytes * int(theirs[here.rank])])
        counts.append(theirs[here.rank])
    return _rows(blocks, array), np.array(counts, np.int32)


def own_rows(array: Array) -> Array:
    """This rank's rows of `array` [rows, ...], a copy."""
    return array[own_share(array.shape[0])].copy()


def barrier() -> None:
    """Waits until all ranks have called it."""
    world().exchange(Call(Kind.BARRIER))


def _check_elements(kind: str, array: Array, name: str) -> None:
    """NumPy's own strings lie flat, and lose zeros at their end: they are refused as well."""
    lies_flat = not array.dtype.hasobject and array.dtype.kind not in "SU"
    check_elements(kind, array.dtype.name, lies_flat, name)


def _bytes_of(array: Array) -> Array:
    """Shapes: result [bytes] of uint8, of this memory where it lies side by side."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _typed(raw: Array, dtype: np.dtype[Any]) -> Array:
    """A copy of bytes as elements of that type. Shapes: result [elements]."""
    return np.frombuffer(bytearray(raw), dtype)


def _rows(blocks: Sequence[Array], like: Array) -> Array:
    """Arrays' memories one below the other."""
    return _typed(np.concatenate(list(blocks)), like.dtype).reshape(-1, *like.shape[1:])
