"""Horovod's calls that reduce nothing, in eager programs and within `tf.function`. All ranks make
the same calls in the same order with the same names. Tensors travel through the host's memory. The
calls are differentiable as in Horovod. Errors: as in the module of the reductions."""

from __future__ import annotations

from typing import Any, Callable, Optional, Union

import numpy as np

from lockstep.horovod import host, process
from lockstep.horovod.arguments import (
    Average,
    ProcessSet,
    Reduction,
    check_process_set,
    check_root,
)
from lockstep.horovod.tensorflow.graph import (
    as_is,
    check_elements,
    on_host,
    rows_of,
    tf,
    with_shape,
)


@as_is
def allgather(
    tensor: Any,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: Optional[ProcessSet] = None,
) -> Any:
    """Concatenates the rows of all ranks in rank order. Ranks may have different numbers of rows.
    Shapes: tensor [rows, ...]; result [sum of rows, ...]."""
    check_process_set(process_set)
    tensor = tf.convert_to_tensor(tensor)
    check_elements("allgather", tensor.dtype, name)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def gathered(given: Any) -> tuple[Any, Callable[[Any], Any]]:
        def back(gradient: Any) -> Any:
            """This rank's rows of the mean."""
            def own(array: host.Array, rows: host.Array) -> list[host.Array]:
                mean, = host.reduce([array], Reduction(Average), None)
                counts = host.gather_rows(rows.reshape(1), None)
                begin = int(counts[: process.rank()].sum())
                return [mean[begin : begin + int(rows)]]
            rows = tf.shape(given)[0]
            made, = on_host(own, [gradient, rows], [gradient.dtype])
            return with_shape(made, given.shape)

        made, = on_host(lambda array: [host.gather_rows(array, name)], [given], [given.dtype])
        return with_shape(made, rows_of(given.shape)), back

    return gathered(tensor)


@as_is
def broadcast(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: Optional[ProcessSet] = None,
) -> Any:
    """Returns `tensor` of rank `root_rank` on all ranks."""
    check_process_set(process_set)
    check_root(root_rank, name or "broadcast")
    tensor = tf.convert_to_tensor(tensor)
    check_elements("broadcast", tensor.dtype, name)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def sent(given: Any) -> tuple[Any, Callable[[Any], Any]]:
        def back(gradient: Any) -> Any:
            """Of the mean, at the root."""
            def own(array: host.Array) -> list[host.Array]:
                mean, = host.reduce([array], Reduction(Average), None)
                return [mean if process.rank() == root_rank else np.zeros_like(mean)]
            made, = on_host(own, [gradient], [gradient.dtype])
            return with_shape(made, given.shape)

        made, = on_host(
            lambda array: host.broadcast([array], root_rank, name), [given], [given.dtype])
        return with_shape(made, given.shape), back

    return sent(tensor)


@as_is
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: Optional[ProcessSet] = None,
) -> Union[Any, tuple[Any, Any]]:
    """Sends the next `splits[r]` rows of `tensor` to each rank r; without splits, the same number
    to each. Returns the rows for this rank; with splits, also how many came from each rank. All
    rows travel to all ranks."""
    check_process_set(process_set)
    tensor = tf.convert_to_tensor(tensor)
    check_elements("alltoall", tensor.dtype, name)
    given = [] if splits is None else [tf.cast(tf.convert_to_tensor(splits), tf.int64)]

    def exchange(rows: host.Array, *counts: host.Array) -> tuple[host.Array, host.Array]:
        return host.all_to_all(rows, counts[0] if counts else None, name)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def exchanged(rows: Any) -> tuple[tuple[Any, Any], Callable[[Any, Any], Any]]:
        made, counts = on_host(exchange, [rows, *given], [rows.dtype, tf.int32])
        made = with_shape(made, rows_of(rows.shape))
        counts = with_shape(counts, [process.size()])

        def back(gradient: Any, _: Any) -> Any:
            returned, _ = alltoall(gradient, counts)
            return with_shape(returned, rows.shape)

        return (made, counts), back

    received, counts = exchanged(tensor)
    return received if splits is None else (received, counts)


@as_is
def barrier(process_set: Optional[ProcessSet] = None) -> None:
    """Waits until all ranks have called it. In a `tf.function`, later operations wait for it."""
    check_process_set(process_set)

    def wait() -> list[host.Array]:
        host.barrier()
        return [np.zeros((), np.int32)]

    on_host(wait, [], [tf.int32])


def join() -> int:
    """For a rank without more data: takes part with zeros in the other ranks' allreduce of Average
    and Sum, until all ranks have called `join`. Returns the rank that called it last. Averages are
    over all ranks. Do not call it within a `tf.function`."""
    return host.world().join()


def size_op(process_set_id: int = 0, name: Optional[str] = None) -> Any:
    """The number of ranks as a constant tensor."""
    return tf.constant(process.size(), tf.int32, name=name)


def rank_op(name: Optional[str] = None) -> Any:
    """The rank as a constant tensor."""
    return tf.constant(process.rank(), tf.int32, name=name)


def local_size_op(name: Optional[str] = None) -> Any:
    """The number of ranks in this pod as a constant tensor."""
    return tf.constant(process.local_size(), tf.int32, name=name)


def local_rank_op(name: Optional[str] = None) -> Any:
    """The number of this process in its pod as a constant tensor."""
    return tf.constant(process.local_rank(), tf.int32, name=name)
