"""What gradients travel as."""

from __future__ import annotations

from typing import Any

from lockstep.horovod.tensorflow.graph import tf


class Compressor:
    """Makes a tensor smaller for its way, and what comes of it a tensor again."""

    # What floating-point tensors travel as; None: as what they are.
    dtype: Any = None

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        """The tensor for the way, and what `decompress` needs to know."""
        if cls.dtype is None or not tensor.dtype.is_floating:
            return tensor, None
        return tf.cast(tensor, cls.dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: Any, context: Any) -> Any:
        """Of the type that it had."""
        return tensor if context is None else tf.cast(tensor, context)


class _None(Compressor):
    """Tensors travel as they are."""


class _Fp16(Compressor):
    """Floating-point tensors travel as float16, rounded after each addition."""

    dtype = tf.float16


class Compression:
    """The choice."""

    none = _None
    fp16 = _Fp16
