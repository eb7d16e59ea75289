"""Tensors and handles of Horovod's calls, and what is refused of them."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import torch

from lockstep.errors import InvalidArgument
from lockstep.horovod.arguments import rows_text
from lockstep.horovod.torch.world import world
from lockstep.horovod.world import Begun


class Handle:
    """A call in progress. `synchronize` waits for it."""

    def __init__(self, begun: Sequence[Begun], finish: Callable[[], Any]) -> None:
        """`finish` makes what the call returns, once all of `begun` has ended."""
        self._world = world()
        self._begun = list(begun)
        self._finish: Optional[Callable[[], Any]] = finish
        self._result: Any = None

    def has_ended(self) -> bool:
        return all(one.has_ended() for one in self._begun)

    def wait(self) -> Any:
        """Again: the same result."""
        while self._begun:
            self._world.wait(self._begun[0])
            del self._begun[0]
        if self._finish is not None:
            self._result, self._finish = self._finish(), None
        return self._result


def poll(handle: Handle) -> bool:
    """Whether `synchronize` would return at once."""
    return handle.has_ended()


def synchronize(handle: Handle) -> Any:
    """Waits for a call in progress, and returns its result."""
    return handle.wait()


def check_tensor(tensor: Any, name: str) -> None:
    """Errors: InvalidArgument (not a dense tensor)."""
    if not isinstance(tensor, torch.Tensor):
        raise InvalidArgument(f"{name}: {type(tensor).__name__} found, expected a tensor")
    if tensor.layout != torch.strided:
        raise InvalidArgument(f"{name}: {tensor.layout} found, expected a dense tensor")


def check_detached(tensor: torch.Tensor, name: str) -> None:
    """Of calls that carry no gradients back. Errors: InvalidArgument."""
    if tensor.requires_grad and torch.is_grad_enabled():
        raise InvalidArgument(
            f"{name}: found a tensor with requires_grad=True, but this call is not differentiable: "
            "pass tensor.detach()")


def staged(tensor: torch.Tensor) -> torch.Tensor:
    """On the host, side by side; the tensor itself where it is that already."""
    return tensor.detach().cpu().contiguous()


def word(dtype: torch.dtype) -> str:
    """Its name, for sentences."""
    return str(dtype)[len("torch.") :]


def what(tensor: torch.Tensor) -> str:
    """Type and shape, for sentences."""
    return f"{word(tensor.dtype)} {list(tensor.shape)}"


def check_rows(tensor: torch.Tensor, name: str) -> str:
    """Of calls on rows: what they are, for sentences. Errors: InvalidArgument (there are none)."""
    check_tensor(tensor, name)
    check_detached(tensor, name)
    return rows_text(word(tensor.dtype), tensor.shape, name)
