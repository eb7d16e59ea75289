"""A hash of a tensor's bits, fast enough to be taken of all that is trained."""

from __future__ import annotations

import functools
from typing import Iterable

import torch

from lockstep.torch.sampler import mix_words

# Choice: words that are weighed at once. Their weights and products stay in a cache.
_CHUNK_WORDS = 1 << 16
_CHUNK_FACTOR = 0x5851F42D4C957F2D  # choice: odd, so that no chunk's share is lost


@functools.lru_cache(maxsize=4)
def _weights(device: torch.device) -> torch.Tensor:
    """Odd ones, so that a change of one word always shows. Shapes: [_CHUNK_WORDS] of int64."""
    return mix_words(torch.arange(_CHUNK_WORDS, dtype=torch.int64)).bitwise_or(1).to(device)


def hash64(tensor: torch.Tensor) -> int:
    """A number from 0 to 2^64 - 1 that depends on each bit of the values and on their places: a
    change of one word always shows, one of several but by chance. Where the tensor is on a GPU it
    is taken there.

    Source: multilinear hashing modulo 2^64 (Carter and Wegman 1979), its words weighed by odd
    numbers; a linear sum is as fast as memory. Bit 63 times any odd number is the same modulo 2^64,
    so that changed signs would cancel each other: the upper half of each word is first mixed into
    its lower one.
    """
    raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    whole = raw.numel() // 8 * 8
    rest = torch.zeros(8, dtype=torch.uint8, device=raw.device)
    rest[: raw.numel() - whole] = raw[whole:]
    parts: list[torch.Tensor] = []
    if whole > 0:
        parts.extend(torch.split(_aligned(raw[:whole]).view(torch.int64), _CHUNK_WORDS))
    parts.append(rest.view(torch.int64))
    weights = _weights(raw.device)
    result: int = raw.numel()
    for part in parts:
        mixed = part.bitwise_right_shift(32).bitwise_and_(0xFFFFFFFF).bitwise_xor_(part)
        share = int(mixed.mul_(weights[: part.numel()]).sum())
        result = (result * _CHUNK_FACTOR + share) % (1 << 64)
    return result


# Choice: small tensors are copied together up to this size and hashed at once, as a call for each
# costs more than its bytes.
_TOGETHER_BYTES = 1 << 20


def hash_all(tensors: Iterable[torch.Tensor]) -> list[int]:
    """Hashes that together depend on each bit of the tensors, which are equal where tensors of
    equal shapes come in the same order."""
    hashes: list[int] = []
    together: list[torch.Tensor] = []
    size = 0

    def take() -> None:
        nonlocal size
        if together:
            hashes.append(hash64(torch.cat(together) if len(together) > 1 else together[0]))
        together.clear()
        size = 0

    for tensor in tensors:
        raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        if size + raw.numel() > _TOGETHER_BYTES or together and together[0].device != raw.device:
            take()
        together.append(raw)
        size += raw.numel()
    take()
    return hashes


def _aligned(raw: torch.Tensor) -> torch.Tensor:
    """A view of words has to begin at one."""
    return raw.clone() if raw.storage_offset() % 8 else raw
