"""The number types in which gradients travel."""

from __future__ import annotations

from typing import Any, Optional

import torch


class Compressor:
    """Makes a tensor smaller before it is sent, and restores its type afterwards."""

    # What floating-point tensors travel as; None: as what they are.
    dtype: Optional[torch.dtype] = None

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Returns the tensor to send, and the context for `decompress`."""
        if cls.dtype is None or not tensor.is_floating_point():
            return tensor, None
        return tensor.to(cls.dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: torch.Tensor, context: Any) -> torch.Tensor:
        """Returns the tensor in its original type."""
        return tensor if context is None else tensor.to(context)


class _None(Compressor):
    """Tensors travel as they are."""


class _Fp16(Compressor):
    """Floating-point tensors travel as float16, rounded after each addition."""

    dtype = torch.float16


class Compression:
    """The choices for `compression`."""

    none = _None
    fp16 = _Fp16
