"""The batches that a loader makes of what the sampler hands out, and what can be seen of them.

Local words: a batch is *seen* if it is known which ids it was made of, and if it shows as many
samples. What a dataset returns for an id is its own matter.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Generic, Iterable, Iterator, Mapping, NamedTuple, Optional, TypeVar

import torch

from lockstep.errors import LockstepError
from lockstep.torch.sampler import Sampler

Batch = TypeVar("Batch")

# Choice: deeper than batches are nested.
_DEPTH_MAX = 5


class Drawn(NamedTuple):
    """What belongs to a batch."""

    ids: list[int]  # of the samples that count
    unseen_count: int  # of these, in a batch that is not seen


class Feed(Generic[Batch]):
    """One pass over a loader, in one meeting. Thread: one."""

    def __init__(self, loader: Iterable[Batch], sampler: Sampler) -> None:
        self._sampler = sampler
        self._keeps_order = keeps_order(loader, sampler)
        self._batches: Iterator[Batch] = iter(loader)
        self._taken_count = 0

    def next(self, step: int) -> tuple[Batch, Drawn]:
        """Returns the batch for `step`, and warns of the first that is not seen. Errors:
        LockstepError (the loader has dropped or repeated one, or samples of it; its batches are not
        the sampler's)."""
        waiting_count = self._sampler.handed_out_count
        batch = next(self._batches, None)
        drawn_count = self._sampler.handed_out_count - waiting_count
        if batch is None or waiting_count + drawn_count == 0:
            raise self._error(step, batch is None)
        ids = self._sampler.take_handed_out()
        self._taken_count += 1
        if len(ids) != self._sampler.slice_size():
            raise self._foreign(step)
        # A generator around the loader may yield another batch than the one that it has drawn, and
        # a collate_fn that drops samples may leave one field of the batch as long as it was.
        if not ids or (self._keeps_order and sizes_of(batch) == {len(ids)}):
            return batch, Drawn(ids, 0)
        found = size_of_rows(batch)
        if found is not None and 1 < found < len(ids):
            raise LockstepError(
                f"step {step}: the batch has {found} samples, but the sampler gave {len(ids)}: a "
                "collate_fn must not drop samples, because they count as used; remove them from "
                "the dataset instead")
        tell_unseen()
        return batch, Drawn(ids, len(ids))

    def _error(self, step: int, has_ended: bool) -> LockstepError:
        """Of a loader that has not drawn what it yields, or yields no more."""
        drawn = self._taken_count + self._sampler.handed_out_count
        if drawn == 0:
            return self._foreign(step)
        if has_ended:
            what = (f"the loader ended after {self._taken_count} of "
                    f"{self._taken_count + len(self._sampler)} batches, and drew {drawn} from "
                    "the sampler")
        else:
            what = (f"the loader yielded {self._taken_count + 1} batches, and drew {drawn} from "
                    "the sampler")
        return LockstepError(
            f"step {step}: {what}: code around a DataLoader must not drop or repeat batches; pass "
            "the DataLoader itself to job.batches")

    def _foreign(self, step: int) -> LockstepError:
        return LockstepError(
            f"step {step}: the loader does not use the job's sampler: create it with "
            "DataLoader(dataset, batch_sampler=job.sampler); the dataset must return samples by "
            "their number, which an IterableDataset cannot do")


def keeps_order(loader: Any, sampler: Sampler) -> bool:
    """Whether `loader` yields one batch for each that it draws of `sampler`, in their order, by
    what torch promises."""
    return (
        isinstance(loader, torch.utils.data.DataLoader)
        and type(loader).__iter__ is torch.utils.data.DataLoader.__iter__
        and getattr(loader, "in_order", True)  # since torch 2.6
        and (loader.batch_sampler is sampler
             or loader.batch_sampler is None and loader.sampler is sampler))


@functools.lru_cache(maxsize=None)
def tell_unseen() -> None:
    """Once: from here on the job knows less than its totals could say."""
    print("lockstep: the job does not see which samples its batches have, so it counts the samples "
          "that were drawn from the sampler; to have the batches checked, pass the DataLoader "
          "itself to job.batches, and give each tensor and list of a batch as many rows as it has "
          "samples", file=sys.stderr, flush=True)


def sizes_of(batch: Any, depth: int = _DEPTH_MAX) -> set[int]:
    """How many samples `batch` may have: rows of its tensors and arrays, and the lengths of lists
    of samples; a list whose members have equally many rows is one of fields."""
    rows = _rows(batch)
    if rows is not None or depth == 0:
        return set() if rows is None else {rows}
    if isinstance(batch, Mapping):
        return set().union(*(sizes_of(one, depth - 1) for one in batch.values()))
    if not isinstance(batch, (list, tuple)):
        return set()
    each = [sizes_of(one, depth - 1) for one in batch]
    has_fields = bool(each) and bool(set.intersection(*each))
    return set().union(*each, set() if has_fields else {len(batch)})


def size_of_rows(batch: Any) -> Optional[int]:
    """How many samples a batch has that is a tensor, or some of different shapes with equally many
    rows. None: it may be anything else, such as a list of images."""
    fields = list(batch.values() if isinstance(batch, Mapping) else
                  batch if isinstance(batch, (list, tuple)) else [batch])
    shapes = {tuple(one.shape) for one in fields if _rows(one) is not None}
    is_plain = all(_rows(one) is not None for one in fields)
    if not is_plain or len({shape[0] for shape in shapes}) != 1:
        return None
    return next(iter(shapes))[0] if len(fields) == 1 or len(shapes) > 1 else None


def _rows(one: Any) -> Optional[int]:
    shape = getattr(one, "shape", None)
    return int(shape[0]) if isinstance(shape, tuple) and shape else None
