"""Which rank reads which samples, and whether each sample was used exactly once.

Local words: a *data epoch* is one pass over the samples; a *position* counts those of one data
epoch in the order in which it visits them; the *cursor* is where the next batch starts. A *global
batch* is what all ranks use in one step, a *slice* one rank's part of it.
"""

from __future__ import annotations

import array
import collections
import struct
from typing import Any, Iterator, NamedTuple, Optional

import torch

from lockstep.arguments import truth, whole_number
from lockstep.errors import Inexact, InvalidArgument, Status
from lockstep.torch.state import raw_bytes

_LEDGER_MAGIC = b"LSLEDGR1"
_LEDGER_HEADER = struct.Struct("<8s5q")
_USES_MAX = 65535  # the ledger's counters have 16 bits


def _wrapped(value: int) -> int:
    """As a signed 64-bit number."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def mix_words(words: torch.Tensor) -> torch.Tensor:
    """Spreads the bits of each word over all 64.

    Source: the finaliser of SplitMix64 (Steele, Lea, Flood 2014). torch has no unsigned words:
    products wrap, and shifts are masked.
    """
    words = words + _wrapped(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ ((words >> shift) & ((1 << (64 - shift)) - 1))) * _wrapped(factor)
    return words ^ ((words >> 31) & ((1 << 33) - 1))


def mix(*numbers: int) -> int:
    """One number of 63 bits that depends on all of them, and on their order."""
    word = torch.zeros(1, dtype=torch.int64)
    for number in numbers:
        word = mix_words(word + _wrapped(number))
    return int(word.item()) & ((1 << 63) - 1)


def permutation(seed: int, data_epoch: int, sample_count: int) -> torch.Tensor:
    """The order in which a data epoch visits the samples: depends on the arguments alone, on every
    machine and release of torch. Shapes: [sample_count] of int64."""
    keys = mix_words(torch.arange(sample_count, dtype=torch.int64) + mix(seed, data_epoch))
    return torch.sort(keys, stable=True).indices


class Totals(NamedTuple):
    """How often samples were used so far. `lost` and `repeated` compare this with the plan; None if
    the job could not see it. `unseen`: those of `consumed` that a loader drew, but whose batches do
    not show which samples they have (docs/reference/python.md)."""

    consumed: int
    expected: int
    lost: Optional[int]
    repeated: Optional[int]
    unseen: int = 0

    def __str__(self) -> str:
        if self.unseen > 0:
            return (f"{self.consumed} samples drawn; it is not known whether the steps used "
                    f"{self.unseen} of them")
        return f"{self.consumed} samples used, {self.lost} lost, {self.repeated} repeated"


class _Counts(NamedTuple):
    """As the ledger has them."""

    consumed: int
    expected: int
    lost: int
    repeated: int


class Sampler:
    """Orders the samples of each data epoch by a seeded permutation, and cuts them into global
    batches. Each rank reads one slice of a global batch. Pass the sampler to the loader:
    `DataLoader(dataset, batch_sampler=sampler)`.

    Its arguments must be equal on all ranks. The cursor moves when `lockstep.torch.Job` has applied
    a step, no matter what the loader has read ahead. Slices are contiguous and disjoint, and their
    sizes differ by at most one sample: rank r of R reads samples [r*m/R, (r+1)*m/R) of a batch of
    m. Thread: one.
    """

    def __init__(
        self,
        sample_count: int,
        batch_size: int,
        *,
        epochs: int = 1,
        seed: int = 0,
        shuffle: bool = True,
    ) -> None:
        """`batch_size`: samples of all ranks together. The last batch of a data epoch has the rest.

        Errors: InvalidArgument (names the argument).
        """
        self.sample_count = whole_number("sample_count", sample_count, least=1)
        self.batch_size = whole_number("batch_size", batch_size, least=1)
        self.epochs = whole_number("epochs", epochs, least=1)
        self.seed = whole_number("seed", seed, least=-(1 << 63))
        self.shuffle = truth("shuffle", shuffle)
        self.rank = 0
        self.size = 1
        self.data_epoch = 0
        self.position = 0
        self._counts = _Counts(0, 0, 0, 0)
        self._unseen_count = 0
        self._uses = torch.zeros(sample_count, dtype=torch.int32)  # in the running data epoch
        self._order_epoch = -1
        self._order = torch.empty(0, dtype=torch.int64)
        self._handed_out: collections.deque[list[int]] = collections.deque()

    def terms(self) -> dict[str, str]:
        """What ranks have to agree on."""
        names = ("sample_count", "batch_size", "epochs", "seed", "shuffle")
        return {f"sampler: {name}": str(getattr(self, name)) for name in names}

    @property
    def steps_total(self) -> int:
        """The steps of the whole training, if the batch size does not change."""
        return self.epochs * self._batches(self.sample_count)

    @property
    def is_done(self) -> bool:
        """Whether all data epochs were used."""
        return self.data_epoch >= self.epochs

    def global_size(self) -> int:
        """The number of samples in the batch at the cursor."""
        return self._end(self.position) - self.position

    def slice_size(self) -> int:
        """The number of samples of this batch that this rank reads."""
        begin, end = self._slice(self.position)
        return end - begin

    def place(self, rank: int, size: int) -> None:
        """Sets the rank and the number of ranks, and forgets batches that were handed out."""
        self.rank = rank
        self.size = size
        self._handed_out = collections.deque()  # a loader of before may still draw

    @property
    def handed_out_count(self) -> int:
        """Batches that a loader was given and that were not taken yet."""
        return len(self._handed_out)

    def take_handed_out(self) -> list[int]:
        """The ids of the oldest batch that a loader was given and that was not taken yet."""
        return self._handed_out.popleft()

    def check(self, ids: torch.Tensor) -> None:
        """Whether `advance` can count `ids`: to ask before the step is applied. Shapes: [count] of
        int64.

        Errors: InvalidArgument (no such sample, or one used too often to count).
        """
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < self.sample_count:
            raise InvalidArgument(
                f"ids: {ids.tolist()} found, expected numbers from 0 to {self.sample_count - 1}")
        used, counts = torch.unique(ids, return_counts=True)
        uses = self._uses[used] + counts
        if uses.numel() and int(uses.max()) > _USES_MAX:
            place = int(uses.argmax())
            raise InvalidArgument(
                f"ids: sample {int(used[place])} is used {int(uses[place])} times in data epoch "
                f"{self.data_epoch}, expected at most {_USES_MAX}")

    def advance(self, ids: torch.Tensor, unseen_count: int = 0) -> None:
        """A step was applied that used `ids`, on all ranks together, as far as was seen of all but
        `unseen_count`. Shapes and errors: those of `check`."""
        self.check(ids)
        self._uses.index_add_(0, ids, torch.ones(ids.numel(), dtype=torch.int32))
        self._counts = self._counts._replace(consumed=self._counts.consumed + ids.numel())
        self._unseen_count += unseen_count
        self.position = self._end(self.position)
        if self.position == self.sample_count:
            self._counts = self._counted()
            self._uses.zero_()
            self.data_epoch += 1
            self.position = 0

    def totals(self) -> Totals:
        """The totals, as if the running data epoch ended at the cursor."""
        counts, unseen = self._counted(), self._unseen_count
        if unseen > 0:
            return Totals(counts.consumed, counts.expected, None, None, unseen)
        return Totals(*counts)

    def check_end(self) -> None:
        """Checks the samples at the end of training, early or not. Errors: Inexact (some sample up
        to the cursor was not used as often as planned)."""
        totals = self.totals()
        if totals.lost or totals.repeated:
            raise Inexact(f"training has ended, but samples were lost or repeated: {totals}; train "
                          "again from an older checkpoint, or from step 0", Status.INTERNAL)

    def _counted(self) -> _Counts:
        wanted = torch.zeros_like(self._uses)
        wanted[self._ids_of(self.data_epoch)[: self.position]] = 1
        surplus = self._uses - wanted
        return _Counts(
            self._counts.consumed,
            self._counts.expected + self.position,
            self._counts.lost - int(surplus.clamp(max=0).sum()),
            self._counts.repeated + int(surplus.clamp(min=0).sum()),
        )

    def __iter__(self) -> Iterator[list[int]]:
        """Yields the slices of this rank from the cursor to the end of all data epochs. If a batch
        has fewer samples than ranks, ranks without a sample get the first sample of the batch,
        which does not count. So the program makes the same calls on all ranks."""
        data_epoch, position = self.data_epoch, self.position
        handed_out = self._handed_out
        while data_epoch < self.epochs:
            begin, end = self._slice(position)
            ids: list[int] = self._ids_of(data_epoch)[begin:end].tolist()
            handed_out.append(ids)
            yield ids or self._ids_of(data_epoch)[position : position + 1].tolist()
            position = self._end(position)
            if position == self.sample_count:
                data_epoch, position = data_epoch + 1, 0

    def __len__(self) -> int:
        """The number of steps from the cursor to the end."""
        if self.is_done:
            return 0
        later = self.epochs - self.data_epoch - 1
        return (self._batches(self.sample_count - self.position)
                + later * self._batches(self.sample_count))

    def ledger(self) -> bytes:
        """The use counts and totals, in the format of the built-in trainer's ledger."""
        header = _LEDGER_HEADER.pack(_LEDGER_MAGIC, self.sample_count, *self._counts)
        return header + array.array("H", self._uses.tolist()).tobytes()

    def state_dict(self) -> dict[str, Any]:
        """The cursor and the ledger."""
        ledger = torch.frombuffer(bytearray(self.ledger()), dtype=torch.uint8)
        return {"data_epoch": self.data_epoch, "position": self.position, "ledger": ledger,
                "unseen": self._unseen_count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Loads cursor and ledger. Errors: InvalidArgument (`state` has another number of
        samples)."""
        raw = raw_bytes(state["ledger"])
        counters = (len(raw) - _LEDGER_HEADER.size) // 2
        magic, sample_count, *counts = _LEDGER_HEADER.unpack_from(raw)
        if magic != _LEDGER_MAGIC or not sample_count == self.sample_count == counters:
            raise InvalidArgument(
                f"ledger: {sample_count} samples found, expected sample_count of the Sampler, "
                f"{self.sample_count}")
        uses = array.array("H", raw[_LEDGER_HEADER.size :])
        self._uses = torch.tensor(uses.tolist(), dtype=torch.int32)
        self._counts = _Counts(*counts)
        # Files of before count what was drawn.
        self._unseen_count = state.get("unseen", self._counts.consumed)
        self.data_epoch = state["data_epoch"]
        self.position = state["position"]
        self._handed_out = collections.deque()

    def _batches(self, samples: int) -> int:
        return -(-samples // self.batch_size)

    def _end(self, position: int) -> int:
        return min(position + self.batch_size, self.sample_count)

    def _slice(self, position: int) -> tuple[int, int]:
        count = self._end(position) - position
        return (position + self.rank * count // self.size,
                position + (self.rank + 1) * count // self.size)

    def _ids_of(self, data_epoch: int) -> torch.Tensor:
        if self._order_epoch != data_epoch:
            self._order = (
                permutation(self.seed, data_epoch, self.sample_count)
                if self.shuffle
                else torch.arange(self.sample_count, dtype=torch.int64)
            )
            self._order_epoch = data_epoch
        return self._order
