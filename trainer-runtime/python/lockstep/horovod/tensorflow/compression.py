"""The number types in which gradients travel."""

from __future__ import annotations

from typing import Any

from lockstep.horovod.tensorflow.graph import tf


class Compressor:
    """Makes a tensor smaller before it is sent, and restores its type afterwards."""

    # What floating-point tensors travel as; None: as what they are.
    dtype: Any = None

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        """Returns the tensor to send, and the context for `decompress`."""
        if cls.dtype is None or not tensor.dtype.is_floating:
            return tensor, None
        return tf.cast(tensor, cls.dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: Any, context: Any) -> Any:
        """Returns the tensor in its original type."""
        return tensor if context is None else tf.cast(tensor, context)


class _None(Compressor):
    """Tensors travel as they are."""


class _Fp16(Compressor):
    """Floating-point tensors travel as float16, rounded after each addition."""

    dtype = tf.float16


class Compression:
    """The choices for `compression`."""

    none = _None
    fp16 = _Fp16
