"""The world of this process where tensors are torch's."""

from __future__ import annotations

from typing import Any, Sequence

import torch

from lockstep.horovod import process
from lockstep.horovod.world import World
from lockstep.library import DataType
from lockstep.torch.session import Session, torch_dtype_of
from lockstep.torch.state import raw_bytes


class Tensors:
    """As `Arrays` has it."""

    def of_bytes(self, raw: bytes) -> torch.Tensor:
        return torch.frombuffer(bytearray(raw), dtype=torch.uint8)

    def raw_bytes(self, array: torch.Tensor) -> bytes:
        return raw_bytes(array)

    def zeros(self, count: int, data_type: DataType) -> torch.Tensor:
        return torch.zeros(count, dtype=torch_dtype_of(data_type))

    def padded(self, own: torch.Tensor, length: int) -> torch.Tensor:
        padded = torch.zeros(length, dtype=torch.uint8)
        padded[: own.numel()] = own
        return padded

    def total(self, array: torch.Tensor) -> float:
        if not array.is_floating_point():
            return 0.0
        return float(array.sum(dtype=torch.float32 if array.element_size() < 4 else None))

    def cut(self, blocks: torch.Tensor, lengths: Sequence[int]) -> list[torch.Tensor]:
        return [block[:length] for block, length in zip(blocks, lengths)]


def world() -> World[torch.Tensor]:
    """That of this process. Errors: InvalidArgument (before `init`, after `shutdown`)."""
    return process.current_with(Tensors)


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Opens this process's session, and waits for all ranks. Again: does nothing. Errors: those of
    `process.init`."""
    process.init(
        lambda seconds: World(Session(plan="lockstep.horovod.torch 1"), Tensors(), seconds),
        comm, process_sets)
