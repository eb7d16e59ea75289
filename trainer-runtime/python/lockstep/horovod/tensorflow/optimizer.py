"""Optimizers of Keras 3 and tf-keras that apply the gradients of all ranks."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

from lockstep.errors import InvalidArgument
from lockstep.horovod.arguments import Average, ProcessSet, ReduceOp, check_passes
from lockstep.horovod.tensorflow.compression import Compression, Compressor
from lockstep.horovod.tensorflow.gradients import GradientReducer, reducer_of
from lockstep.horovod.tensorflow.graph import as_is, tf

# Where an optimizer keeps what is ours.
_PLACE = "_lockstep_passes"


class _Passes:
    """Adds up the gradients of `count` backward passes, and has those of all ranks applied."""

    def __init__(self, reducer: GradientReducer, count: int, is_averaged: bool) -> None:
        self._reducer = reducer
        self._count = count
        self._is_averaged = is_averaged
        self._done: Any = None  # passes since the newest step; both are variables
        self._sums: list[Any] = []

    def apply(
        self,
        gradients: Sequence[Any],
        apply: Callable[[list[Any]], Any],
        skip: Callable[[], Any],
    ) -> None:
        """`apply` is called with what all ranks' gradients come to, after so many passes; `skip`
        otherwise."""
        if self._count == 1:
            apply(self._reducer.reduce(gradients))
            return
        given = [self._reducer.dense(one) for one in gradients]
        if any(isinstance(one, tf.IndexedSlices) for one in given):
            raise InvalidArgument(
                "backward_passes_per_step: a gradient of tf.IndexedSlices found, expected dense "
                "gradients; sparse_as_dense=True makes sparse gradients dense")
        present = [one for one in given if one is not None]
        self._make(present)
        for total, one in zip(self._sums, present):
            total.assign_add(one)

        def step() -> Any:
            totals = iter([total.read_value() for total in self._sums])
            reduced = self._reducer.reduce([None if one is None else next(totals) for one in given])
            if self._is_averaged:
                reduced = [None if one is None else one / tf.cast(self._count, one.dtype)
                           for one in reduced]
            apply(reduced)
            self.forget()
            return tf.constant(True)

        def wait() -> Any:
            skip()
            return tf.constant(False)

        tf.cond(self._done.assign_add(1) >= self._count, step, wait)

    def forget(self) -> None:
        """As after a step."""
        if self._done is not None:
            self._done.assign(0)
        for total in self._sums:
            total.assign(tf.zeros_like(total))

    def _make(self, gradients: Sequence[Any]) -> None:
        if self._done is not None:
            return
        with tf.init_scope():
            self._done = tf.Variable(0, trainable=False, dtype=tf.int64)
            self._sums = [tf.Variable(tf.zeros(one.shape, one.dtype), trainable=False)
                          for one in gradients]


class _CallableList(list[Any]):
    """Variables that programs get as an attribute or, as in old releases, by a call."""

    def __call__(self) -> list[Any]:
        return self


class _Distributed:
    """What is put before the class of an optimizer."""

    def forget_passes(self) -> None:
        """Backward passes since the newest step."""
        getattr(self, _PLACE).forget()


class _Keras3(_Distributed):
    """Before one of Keras 3."""

    @as_is
    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Applies the gradients of all ranks."""
        above: Any = super()
        mine: Any = self
        variables = None if trainable_variables is None else list(trainable_variables)
        if variables is not None and not mine.built:
            with tf.init_scope():
                mine.build(variables)
        getattr(self, _PLACE).apply(
            list(grads), lambda reduced: above.apply(reduced, variables),
            lambda: mine.iterations.assign_add(1))

    @property
    def variables(self) -> Any:
        """As Keras has them."""
        above: Any = super()
        return _CallableList(above.variables)


class _TfKeras(_Distributed):
    """Before one of tf-keras, of either kind."""

    @as_is
    def apply_gradients(self, grads_and_vars: Any, *arguments: Any, **named: Any) -> Any:
        """Applies the gradients of all ranks."""
        above: Any = super()
        mine: Any = self
        pairs = list(grads_and_vars)
        variables = [variable for _, variable in pairs]
        if hasattr(mine, "build"):
            with tf.init_scope():
                mine.build(variables)
        elif hasattr(mine, "_create_all_weights"):
            with tf.init_scope():
                mine._create_all_weights(variables)
        getattr(self, _PLACE).apply(
            [gradient for gradient, _ in pairs],
            lambda reduced: above.apply_gradients(zip(reduced, variables), *arguments, **named),
            lambda: mine.iterations.assign_add(1))
        return mine.iterations


def DistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: Optional[ProcessSet] = None,
    scale_local_gradients: bool = True,
) -> Any:
    """Changes `optimizer`, an optimizer of Keras, to apply the gradients of all ranks, and returns
    it. It keeps its settings and state. Its new class derives from its old class.

    `backward_passes_per_step`: gradients of this number of calls are added up (averaged with
    `average_aggregated_gradients`) before they are reduced. The calls in between change only
    `iterations`. `name`: the name of its reductions. `use_locking` has no effect. Errors:
    InvalidArgument.
    """
    is_keras_3 = hasattr(optimizer, "apply") and hasattr(optimizer, "built")
    if not is_keras_3 and not (
            hasattr(optimizer, "apply_gradients") and hasattr(optimizer, "iterations")):
        raise InvalidArgument(
            f"optimizer: {type(optimizer).__name__} found, expected an optimizer of Keras")
    if isinstance(optimizer, _Distributed):
        raise InvalidArgument(
            "optimizer: a DistributedOptimizer found, expected the optimizer that it wraps")
    check_passes(backward_passes_per_step)
    reducer = reducer_of(
        name or "gradients", device_dense, device_sparse, compression, sparse_as_dense, op,
        gradient_predivide_factor, num_groups, groups, process_set, scale_local_gradients)
    base = type(optimizer)
    kind = type(base.__name__, (_Keras3 if is_keras_3 else _TfKeras, base),
                {"__module__": base.__module__, "__qualname__": base.__qualname__})
    passes = _Passes(reducer, backward_passes_per_step, average_aggregated_gradients)
    object.__setattr__(optimizer, _PLACE, passes)
    optimizer.__class__ = kind
    return optimizer
