"""Horovod's reductions, in eager programs and within `tf.function`. All ranks make the same calls
in the same order with the same names. Tensors travel through the host's memory. Errors:
InvalidArgument (only this call fails, on this rank), and those of `World`. Within a `tf.function`,
TensorFlow raises its own error, which contains theirs."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

from lockstep.errors import InvalidArgument
from lockstep.horovod import host
from lockstep.horovod.arguments import (
    Average,
    ProcessSet,
    ReduceOp,
    Reduction,
    Sum,
    check_process_set,
    op_of,
)
from lockstep.horovod.callbacks import check_device
from lockstep.horovod.process import size
from lockstep.horovod.tensorflow.compression import Compression, Compressor
from lockstep.horovod.tensorflow.exchanges import allgather
from lockstep.horovod.tensorflow.graph import (
    as_is,
    check_elements,
    on_host,
    rows_of,
    tf,
    with_shape,
)


@as_is
def allreduce(
    tensor: Any,
    average: Optional[bool] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
    ignore_name_scope: bool = False,
) -> Any:
    """Reduces `tensor` over all ranks. tf.IndexedSlices of all ranks are concatenated, for Average
    or Sum. Average and Sum are differentiable. `ignore_name_scope` has no effect: scopes are never
    part of names here."""
    reduction = _checked(average, device_dense, device_sparse, op, prescale_factor,
                         postscale_factor, process_set)
    if isinstance(tensor, tf.IndexedSlices):
        return reduce_slices(tensor, reduction, name)
    tensor = tf.convert_to_tensor(tensor)
    small, context = compression.compress(tensor)
    return compression.decompress(reduce_all([small], reduction, name, "allreduce")[0], context)


@as_is
def grouped_allreduce(
    tensors: Sequence[Any],
    average: Optional[bool] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: Optional[ReduceOp] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
    ignore_name_scope: bool = False,
    name: Optional[str] = None,
) -> list[Any]:
    """Reduces `tensors`; those of one type in one call, and tf.IndexedSlices one by one after
    them."""
    reduction = _checked(average, device_dense, device_sparse, op, prescale_factor,
                         postscale_factor, process_set)
    return reduce_mixed(tensors, reduction, compression, name, "grouped_allreduce")


@as_is
def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: ReduceOp = Average,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Reduces `tensor` [rows, ...] by Average or Sum, and returns this rank's rows. All ranks get
    the same number of rows; if some are left over, the first ranks get one more. It is
    differentiable."""
    reduction = _checked(None, device_dense, "", op, prescale_factor, postscale_factor, process_set)
    if reduction.op not in (Average, Sum):
        raise InvalidArgument(f"op: {op!r} found, expected Average or Sum")
    tensor = tf.convert_to_tensor(tensor)
    if tensor.shape.rank == 0:
        raise InvalidArgument("tensor: a scalar found, expected rows")
    small, context = compression.compress(tensor)
    _check_type(small, reduction, name or "reducescatter")

    def own(array: host.Array) -> list[host.Array]:
        return [host.own_rows(host.reduce([array], reduction, name, "reducescatter")[0])]

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def scattered(given: Any) -> tuple[Any, Callable[[Any], Any]]:
        made = with_shape(on_host(own, [given], [given.dtype])[0], rows_of(given.shape))
        times = reduction.prescale * reduction.postscale * (size() if op is Sum else 1)

        def back(gradient: Any) -> Any:
            return allgather(gradient * tf.cast(times, gradient.dtype))

        return made, back

    return compression.decompress(scattered(small), context)


def reduce_mixed(
    tensors: Sequence[Any],
    reduction: Reduction,
    compression: type[Compressor],
    name: Optional[str],
    kind: str,
) -> list[Any]:
    """Each of `tensors`; None stays None. Dense ones first, then tf.IndexedSlices."""
    made = list(tensors)
    sparse = [place for place, one in enumerate(tensors) if isinstance(one, tf.IndexedSlices)]
    dense = [place for place, one in enumerate(tensors)
             if one is not None and place not in sparse]
    small = [compression.compress(tf.convert_to_tensor(tensors[place])) for place in dense]
    if dense:
        reduced = reduce_all([one for one, _ in small], reduction, name, kind)
        for place, one, (_, context) in zip(dense, reduced, small):
            made[place] = compression.decompress(one, context)
    for place in sparse:
        made[place] = reduce_slices(tensors[place], reduction, None)
    return made


def reduce_all(
    tensors: Sequence[Any], reduction: Reduction, name: Optional[str], kind: str
) -> list[Any]:
    """Dense tensors, some, in one call of the host. Gradients go back by the same reduction."""
    for tensor in tensors:
        _check_type(tensor, reduction, name or kind)

    def work(*arrays: host.Array) -> list[host.Array]:
        return host.reduce(arrays, reduction, name, kind)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def reduced(*given: Any) -> tuple[list[Any], Callable[..., list[Any]]]:
        made = on_host(work, given, [one.dtype for one in given])

        def back(*gradients: Any) -> list[Any]:
            if reduction.op not in (Average, Sum):
                raise InvalidArgument(
                    f"{name or kind}: {reduction.op} has no gradients, expected Average or Sum")
            return reduce_all(gradients, reduction, name and name + ".gradient", kind)

        return [with_shape(one, like.shape) for one, like in zip(made, given)], back

    result: list[Any] = list(reduced(*tensors))
    return result


def reduce_slices(slices: Any, reduction: Reduction, name: Optional[str]) -> Any:
    """tf.IndexedSlices: what all ranks have, one after the other."""
    if reduction.op not in (Average, Sum):
        raise InvalidArgument(
            f"op: {reduction.op!r} of tf.IndexedSlices found, expected Average or Sum")
    if reduction.is_scaled:
        raise InvalidArgument(
            "prescale_factor, postscale_factor: cannot be used with tf.IndexedSlices; "
            "sparse_as_dense=True makes dense tensors of them")
    _check_type(slices.values, reduction, name or "allreduce")
    values = allgather(slices.values, name and name + ".values")
    indices = allgather(slices.indices, name and name + ".indices")
    if reduction.op is Average:
        values = values / tf.cast(size(), values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)


def _checked(
    average: Optional[bool],
    device_dense: str,
    device_sparse: str,
    op: Optional[ReduceOp],
    prescale: float,
    postscale: float,
    process_set: Optional[ProcessSet],
) -> Reduction:
    check_process_set(process_set)
    check_device("device_dense", device_dense)
    check_device("device_sparse", device_sparse)
    return Reduction(op_of(op, average), prescale, postscale)


def _check_type(tensor: Any, reduction: Reduction, name: str) -> None:
    check_elements(str(reduction.op), tensor.dtype, name, "numbers")
    reduction.check(tensor.dtype.name, tensor.dtype.is_floating, name)
