"""Optimizers that apply the gradients of all ranks."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Iterable, Iterator, Optional

import torch

from lockstep.errors import InvalidArgument
from lockstep.horovod.arguments import (
    Average,
    ProcessSet,
    ReduceOp,
    check_gradients,
    check_passes,
    check_process_set,
)
from lockstep.horovod.torch.compression import Compression, Compressor
from lockstep.horovod.torch.gradient_reducer import GradientReducer, Reduction
from lockstep.horovod.torch.world import world

# What an optimizer keeps of its own under these names is a wrapper of its old methods.
_OVERRIDDEN = ("step", "zero_grad", "load_state_dict", "add_param_group")


class _Distributed(torch.optim.Optimizer):
    """What is added to the class of an optimizer."""

    _reducer: GradientReducer
    _should_synchronize: bool
    _is_synchronized: bool

    def synchronize(self) -> None:
        """Waits until all gradients are reduced, for example to clip them. Then call
        `with optimizer.skip_synchronize(): optimizer.step()`."""
        self._reducer.synchronize()
        self._is_synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it, `step` does not reduce the gradients again."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Any = None) -> Any:
        """Reduces the gradients if this was not done yet, and applies them. Errors: InvalidArgument
        (a closure was passed, whose gradients would not be reduced), those of `World`."""
        if closure is not None:
            raise InvalidArgument("step: a closure found, expected None: gradients of a closure "
                                  "would not be reduced over the ranks")
        if self._should_synchronize:
            if self._is_synchronized:
                warnings.warn(
                    "step: the gradients are reduced a second time after synchronize(); call step "
                    "within skip_synchronize()", stacklevel=2)
            self.synchronize()
        self._is_synchronized = False
        result = super().step()
        world().report_step()
        return result

    def zero_grad(self, *arguments: Any, **named: Any) -> None:
        """Errors: InvalidArgument (gradients are being reduced)."""
        if self._reducer.is_under_way:
            raise InvalidArgument(
                "zero_grad: called between backward() and step() or synchronize(), while gradients "
                "are being reduced")
        super().zero_grad(*arguments, **named)

    def load_state_dict(self, *arguments: Any, **named: Any) -> None:
        """Loads the state, and forgets a step that has begun."""
        self._reducer.forget()
        self._is_synchronized = False
        super().load_state_dict(*arguments, **named)

    def add_param_group(self, param_group: Any) -> None:
        """Errors: InvalidArgument."""
        raise InvalidArgument(
            "add_param_group: called on a DistributedOptimizer; call it on the torch optimizer, "
            "before the DistributedOptimizer is made")

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Takes effect from the next step on. Errors: InvalidArgument."""
        self._reducer.forget()
        self._reducer.reduction = self._reducer.reduction._replace(passes=check_passes(passes))


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Iterable[tuple[str, torch.nn.Parameter]]] = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    sparse_as_dense: bool = False,
    process_set: Optional[ProcessSet] = None,
) -> Any:
    """Returns an optimizer with the parameters, settings and state of `optimizer`, whose `step`
    applies the gradients of all ranks. Gradients travel in buckets during the backward pass. All
    ranks must have the same parameters in the same order. Gradients of several passes are added up,
    not averaged.

    Errors: InvalidArgument.
    """
    world()
    check_process_set(process_set)
    check_gradients(op, compression, (Compression.none, Compression.fp16),
                    gradient_predivide_factor, num_groups, groups)
    # The last layers' gradients come first.
    parameters = _names_of(optimizer, named_parameters)[::-1]
    kind: Any = type(type(optimizer).__name__, (_Distributed, type(optimizer)), {})
    made = kind.__new__(kind)
    made.__dict__.update(
        {name: value for name, value in vars(optimizer).items() if name not in _OVERRIDDEN})
    made._should_synchronize = True
    made._is_synchronized = False
    made._reducer = GradientReducer(parameters, Reduction(
        op, compression, check_passes(backward_passes_per_step), gradient_predivide_factor,
        sparse_as_dense))
    made._accumulators = [
        _after_gradient(parameter, made._reducer, place)
        for place, (_, parameter) in enumerate(parameters)
    ]
    return made


def _names_of(
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Iterable[tuple[str, torch.nn.Parameter]]],
) -> list[tuple[str, torch.nn.Parameter]]:
    """The optimizer's parameters that have gradients, in its order, with their names."""
    places = [(f"parameter {group}.{index}", parameter)
              for group, one in enumerate(optimizer.param_groups)
              for index, parameter in enumerate(one["params"])]
    given = places if named_parameters is None else list(named_parameters)
    if any(not isinstance(one, tuple) or len(one) != 2 for one in given):
        raise InvalidArgument(
            "named_parameters: expected pairs of name and parameter, such as those of "
            "model.named_parameters()")
    names = [name for name, _ in given]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgument(f"named_parameters: {', '.join(twice)} found twice, expected once")
    by_parameter = {id(parameter): name for name, parameter in given}
    unnamed = [name for name, parameter in places if id(parameter) not in by_parameter]
    if unnamed:
        raise InvalidArgument(
            f"named_parameters: no name found for {', '.join(unnamed)} of the optimizer")
    return [(by_parameter[id(parameter)], parameter)
            for _, parameter in places if parameter.requires_grad]


def _after_gradient(
    parameter: torch.nn.Parameter, reducer: GradientReducer, place: int
) -> Any:
    """Counts each gradient of the parameter once it is added up. Returns what keeps the hook: the
    graph has the accumulator only while it lives."""
    with torch.enable_grad():
        expanded: Any = parameter.expand_as(parameter)
    accumulator = expanded.grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda *_: reducer.count_pass(place))
    return accumulator
