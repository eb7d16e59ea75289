"""States of elastic programs for torch."""

from __future__ import annotations

import copy
import random
from typing import Any, Iterator, Optional, Sized

import torch

from lockstep.errors import InvalidArgument
from lockstep.horovod.elastic import ObjectState, State, run
from lockstep.horovod.process import rank, size
from lockstep.horovod.torch.functions import broadcast_state

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]


class TorchState(ObjectState):
    """A state of a model, an optimizer, samplers of this module, and other named objects."""

    def __init__(
        self,
        model: Optional[torch.nn.Module] = None,
        optimizer: Optional[torch.optim.Optimizer] = None,
        **objects: Any,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        parts = {"model": model, "optimizer": optimizer, **objects}
        kinds = (torch.nn.Module, torch.optim.Optimizer, ElasticSampler)
        self._parts = {name: one for name, one in parts.items() if isinstance(one, kinds)}
        for name, value in (("model", model), ("optimizer", optimizer)):
            if value is not None and name not in self._parts:
                raise InvalidArgument(
                    f"{name}: {type(value).__name__} found, expected a {name} of torch")
        for name, one in self._parts.items():
            setattr(self, name, one)
        super().__init__(**{name: one for name, one in objects.items() if name not in self._parts})
        self._saved_parts: dict[str, Any] = {}
        self.save()

    def save(self) -> None:
        self._saved_parts = {
            name: copy.deepcopy(one.state_dict()) for name, one in self._parts.items()}
        super().save()

    def restore(self) -> None:
        for name, one in self._parts.items():
            one.load_state_dict(copy.deepcopy(self._saved_parts[name]))
        super().restore()

    def sync(self) -> None:
        for name, one in self._parts.items():
            state = broadcast_state(f"elastic {name}", one.state_dict(), self.source)
            if rank() != self.source:
                one.load_state_dict(state)
        super().sync()


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Shuffles the samples anew for each data epoch. Each rank takes every size-th sample, after
    those counted by `record_batch`. As part of a state, it is saved, restored and synchronized."""

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        """`seed` must be equal on all ranks."""
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0  # samples of this epoch, of all ranks together
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins data epoch `epoch`. Call it at the end of each data epoch, so that none
        repeats."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Counts `batch_size` samples that each rank has used. `batch_idx` is not used."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, int]:
        """The position."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Goes to the position in `state`."""
        self.epoch = state["epoch"]
        self.processed_num = state["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Distributes the rest of the data epoch over the current ranks."""
        self.num_replicas = size()
        self.rank = rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)

    def __iter__(self) -> Iterator[int]:
        """All ranks yield the same number of samples: at the end, the first ones repeat."""
        left = self.remaining_indices
        whole = (left * self.num_replicas)[: self.num_samples * self.num_replicas]
        return iter(whole[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
