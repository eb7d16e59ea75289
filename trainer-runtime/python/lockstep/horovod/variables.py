"""Copies variables of TensorFlow and of Keras 2 and 3 between ranks, and keeps them in states of
elastic programs. It imports none of these: a variable is any object with `numpy` and `assign`."""

from __future__ import annotations

from typing import Any, Iterable, Optional

import numpy as np

from lockstep.errors import InvalidArgument
from lockstep.horovod import host
from lockstep.horovod.arguments import ProcessSet, check_process_set
from lockstep.horovod.elastic import ObjectState


def broadcast_now(
    variables: Iterable[Any],
    root_rank: int,
    process_set: Optional[ProcessSet] = None,
    name: str = "variables",
) -> None:
    """Those of rank `root_rank` to all ranks, in place, in one call, outside of graphs. Errors:
    those of `host.broadcast`."""
    check_process_set(process_set)
    targets = list(variables)
    arrays = [np.asarray(one.numpy()) for one in targets]
    for target, array in zip(targets, host.broadcast(arrays, root_rank, name)):
        target.assign(array)


def of_model(model: Any) -> list[Any]:
    """What a model has learned, and the states of its generators of random numbers; not its
    metrics, which it makes in its first batch. Errors: InvalidArgument (it has not been built)."""
    if not getattr(model, "built", True):
        raise InvalidArgument(
            "model: a model that has not been built has no variables; call "
            "model.build(input_shape) first")
    weights = list(model.weights)
    have = {id(one) for one in weights}
    return weights + [one for one in model.variables
                      if id(one) not in have and "seed_generator_state" in one.name]


def of_optimizer(optimizer: Any, model: Any = None) -> list[Any]:
    """What an optimizer has learned; of one that has not begun to, made for `model`."""
    if model is not None and hasattr(optimizer, "build") and not getattr(optimizer, "built", False):
        optimizer.build(model.trainable_variables)
    found = optimizer.variables
    return list(found() if callable(found) else found)


class VariablesState(ObjectState):
    """A state of variables and named objects. Derived classes define `_variables`."""

    def __init__(self, **objects: Any) -> None:
        self._values: list[Any] = []
        super().__init__(**objects)
        self.save()

    def _variables(self) -> list[Any]:
        raise NotImplementedError

    def save(self) -> None:
        self._values = [np.array(one.numpy()) for one in self._variables()]
        super().save()

    def restore(self) -> None:
        for one, value in zip(self._variables(), self._values):
            one.assign(value)
        super().restore()

    def sync(self) -> None:
        broadcast_now(self._variables(), self.source, name="elastic variables")
        super().sync()


class TensorFlowState(VariablesState):
    """A state of a list of variables and other named objects."""

    def __init__(self, variables: Any = None, session: Any = None, **objects: Any) -> None:
        """Errors: InvalidArgument (`variables` is empty, or `session` is set)."""
        if session is not None:
            raise InvalidArgument(f"session: {session!r} found, expected None: TensorFlow 1 is not "
                                  "supported")
        if not variables:
            raise InvalidArgument("variables: none found, expected a list of variables")
        self.variables = list(variables)
        super().__init__(**objects)

    def _variables(self) -> list[Any]:
        return self.variables


class TensorFlowKerasState(VariablesState):
    """A state of a model that is built, its optimizer, and other named objects."""

    def __init__(
        self, model: Any, optimizer: Any = None, backend: Any = None, **objects: Any
    ) -> None:
        """`optimizer`: None for the optimizer that `model` was compiled with. `backend` has no
        effect. Errors: InvalidArgument."""
        self.model = model
        self.optimizer = getattr(model, "optimizer", None) if optimizer is None else optimizer
        if self.optimizer is None:
            raise InvalidArgument(
                "optimizer: None found, expected an optimizer, or a model that was compiled with "
                "one")
        super().__init__(**objects)

    def _variables(self) -> list[Any]:
        return of_model(self.model) + of_optimizer(self.optimizer, self.model)

    def restore(self) -> None:
        super().restore()
        forget = getattr(self.optimizer, "forget_passes", None)
        if forget is not None:
            forget()
