"""Collectives of a session on JAX arrays, with and without `jit`.

A compiled program calls back into Python for each collective, and copies the array through the
host's memory. Calls keep their order in the program (`io_callback(ordered=True)`), so all ranks
must run the same program.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

import lockstep.numpy
from lockstep.errors import InvalidArgument
from lockstep.library import Op
from lockstep.session import CALL_SECONDS, OpLike, op_of

__all__ = ["Collectives"]

_TYPES = ("uint8", "int32", "int64", "uint32", "float16", "float32", "float64")

# uint32, as of PRNG keys, travels as int32 of the same bits, which add up alike. With this one
# turned they are in the same order as well.
_HIGH_BIT = np.uint32(1 << 31)


class Collectives:
    """Collectives on JAX arrays, through an open session of `lockstep.numpy`. Use that session for
    all other calls: `meet`, `report`, `should_stop`.

    Compiled functions stay valid after another `meet`.
    Errors: InvalidArgument while tracing. For an error in a call, JAX raises its own exception when
    the program waits for the result; `check` raises the session's exception. After an error, all
    calls fail at once until `check` is called.
    PRNG keys travel as their data: broadcast them; a sum of keys is of no use.
    Collectives are not differentiable: compute gradients first, then reduce them.
    Thread: JAX calls the session from its own thread. Wait for results (`jax.block_until_ready`, or
    `jax.effects_barrier` for unused results) before other calls of the session; otherwise these
    fail with BUSY.
    """

    def __init__(self, session: lockstep.numpy.Session, timeout: float = CALL_SECONDS) -> None:
        """`timeout`: the time limit of each call, in seconds."""
        self._session = session
        self._timeout = timeout
        self._failure: Optional[Exception] = None

    def all_reduce(self, array: Any, op: OpLike = Op.SUM) -> jax.Array:
        """Reduces `array` over all ranks. `mean` needs floating-point numbers."""
        own = _checked(array)
        chosen = op_of(op)
        if chosen is Op.MEAN and not jnp.issubdtype(own.data.dtype, jnp.floating):
            raise InvalidArgument(f"op: a mean of {own.data.dtype.name} is not supported: "
                                  "use sum and divide the result")
        return self._call(
            lambda copy: self._session.all_reduce(copy, chosen, self._timeout), own,
            own.data.shape, turned=chosen in (Op.MIN, Op.MAX))

    def all_reduce_tree(self, tree: Any, op: OpLike = Op.SUM) -> Any:
        """Reduces each array of a tree, such as gradients, in the order of its leaves."""
        return jax.tree_util.tree_map(lambda leaf: self.all_reduce(leaf, op), tree)

    def broadcast(self, array: Any, root: int) -> jax.Array:
        """Returns `array` of rank `root`. Other ranks pass an array of the same shape and type."""
        own = _checked(array)
        return self._call(
            lambda copy: self._session.broadcast(copy, root, self._timeout), own, own.data.shape)

    def all_gather(self, array: Any) -> jax.Array:
        """Gathers `array` [...] from all ranks, in rank order: [size, ...]."""
        own = _checked(array)
        return self._call(
            lambda copy: self._session.all_gather(copy, self._timeout), own,
            (self._session.size, *own.data.shape))

    def check(self) -> None:
        """Raises the error of a call since the last `check`, if any: `MeetAgain`, `Mismatch`."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _call(
        self,
        work: Callable[[Any], Any],
        own: _Checked,
        shape: tuple[int, ...],
        turned: bool = False,
    ) -> jax.Array:
        """`work` on a copy of the data, which yields an array of that shape. `turned`: by its
        order."""
        is_unsigned = own.data.dtype == jnp.uint32
        turn = _HIGH_BIT if turned else np.uint32(0)

        def on_host(given: Any) -> Any:
            if self._failure is not None:
                raise self._failure
            try:
                # Of its own: what JAX gives is read-only. A scalar stays an array of one.
                copy = np.array(given, order="C")
                if not is_unsigned:
                    return np.asarray(work(copy))
                np.bitwise_xor(copy, turn, out=copy)
                return np.asarray(work(copy.view(np.int32))).view(np.uint32) ^ turn
            except Exception as failure:
                self._failure = failure
                raise

        described: Any = jax.ShapeDtypeStruct
        result: jax.Array = io_callback(
            on_host, described(shape, own.data.dtype), own.data, ordered=True)
        return own.made_again(result)


class _Checked(NamedTuple):
    """An array that calls take. `key`: how the data are a PRNG key; None: they are none."""

    data: jax.Array
    key: Any = None

    def made_again(self, data: jax.Array) -> jax.Array:
        return data if self.key is None else jax.random.wrap_key_data(data, impl=self.key)


def _checked(array: Any) -> _Checked:
    given = jnp.asarray(array)
    if jnp.issubdtype(given.dtype, jax.dtypes.prng_key):
        return _Checked(jax.random.key_data(given), jax.random.key_impl(given))
    if given.dtype.name not in _TYPES:
        raise InvalidArgument(
            f"array: dtype {given.dtype.name} found, expected one of {', '.join(_TYPES)}")
    return _Checked(given)
