"""Calls of the host from TensorFlow's programs, eager ones and functions."""

from __future__ import annotations

import importlib
import threading
from typing import Any, Callable, Optional, Sequence, TypeVar, cast

from lockstep.errors import MeetAgain
from lockstep.horovod import arguments
from lockstep.horovod.host import Array, world

# It has no types.
tf: Any = importlib.import_module("tensorflow")

Function = TypeVar("Function", bound=Callable[..., Any])

# A program's functions may run at once; calls do not. Which comes first is theirs to see to.
_turn = threading.Lock()


def as_is(function: Function) -> Function:
    """`function`, which TensorFlow does not rewrite where a `tf.function` calls it."""
    return cast(Function, tf.autograph.experimental.do_not_convert(function))


def on_host(
    work: Callable[..., Sequence[Array]], tensors: Sequence[Any], dtypes: Sequence[Any]
) -> list[Any]:
    """What `work` makes of the arrays of `tensors`: at once, or, within a `tf.function`, each time
    that it runs. There TensorFlow carries out calls of one graph in the order in which they are
    written (automatic control dependencies), and tells of their errors with ones of its own."""
    if tf.executing_eagerly():
        with _turn:
            made = work(*(tensor.numpy() for tensor in tensors))
        return [tf.convert_to_tensor(array, dtype) for array, dtype in zip(made, dtypes)]

    @as_is
    def within(*arrays: Array) -> Sequence[Array]:
        try:
            with _turn:
                return work(*arrays)
        except SystemExit as end:
            # Not of a thread of TensorFlow's. The main one ends by what becomes of this.
            raise MeetAgain(str(world().loss or end)) from end

    return list(tf.numpy_function(within, list(tensors), list(dtypes)))


def check_elements(
    what: str, dtype: Any, name: Optional[str], expected: str = "numbers or bool"
) -> None:
    """As of `arguments.check_elements`, of a TensorFlow type or its name."""
    dtype = tf.as_dtype(dtype)
    lies_flat = dtype not in (tf.string, tf.resource, tf.variant)
    arguments.check_elements(what, dtype.name, lies_flat, name, expected)


def with_shape(tensor: Any, shape: Any) -> Any:
    """A result of `on_host`, of which a graph does not know the shape."""
    if not tf.executing_eagerly():
        tensor.set_shape(shape)
    return tensor


def rows_of(shape: Any) -> Any:
    """A shape of any number of rows of those in `shape`."""
    return tf.TensorShape([None]).concatenate(shape[1:]) if shape.rank else tf.TensorShape(None)
