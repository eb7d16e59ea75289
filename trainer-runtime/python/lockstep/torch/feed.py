"""The batches that a loader makes of what the sampler hands out, and what can be seen of them.

Local words: a batch is *seen* if it is known which ids it was made of, and if it shows as many
samples. What a dataset returns for an id is its own matter.
"""

from __future__ import annotations

import sys
from typing import Any, Generic, Iterable, Iterator, Mapping, NamedTuple, Optional, TypeVar

import torch

from lockstep.errors import InvalidArgument, LockstepError
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
        LockstepError (the loader has dropped or repeated one; its batches are not the
        sampler's)."""
        waiting_count = self._sampler.handed_out_count
        batch = next(self._batches, None)
        drawn_count = self._sampler.handed_out_count - waiting_count
        if batch is None or waiting_count + drawn_count == 0:
            raise self._error(step, batch is None)
        ids = self._sampler.take_handed_out()
        self._taken_count += 1
        if len(ids) != self._sampler.slice_size():
            raise self._foreign(step)
        why = self._why_unseen(batch, len(ids)) if ids else None
        if why is None:
            return batch, Drawn(ids, 0)
        tell_unseen(f"step {step}: {why}")
        return batch, Drawn(ids, len(ids))

    def _why_unseen(self, batch: Batch, count: int) -> Optional[str]:
        """What keeps the job from knowing that `batch` is of the ids that were drawn for it."""
        # Code around a DataLoader may yield another batch than the one that it has drawn.
        if not self._keeps_order:
            return "the loader is not a DataLoader that keeps the order of job.sampler"
        # Fewer rows than samples are no error for certain: a collate_fn may have dropped some, or
        # packed them, or put the time first.
        sizes = sizes_of(batch)
        rows = " or ".join(str(size) for size in sorted(sizes)) or "no"
        return None if sizes == {count} else (
            f"the batch has {rows} rows, and the sampler gave {count} samples")

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
            f"step {step}: the loader does not use the job's sampler, or cannot be iterated a "
            "second time. Create it with DataLoader(dataset, batch_sampler=job.sampler). The "
            "dataset must support dataset[i], so an IterableDataset does not work")


def check_begins_anew(loader: Any) -> None:
    """Whether `loader` can be iterated again, as it is after the loss of a rank. Errors:
    InvalidArgument."""
    if hasattr(loader, "__next__") and iter(loader) is loader:
        raise InvalidArgument(
            f"batches: {type(loader).__name__} found, which cannot be iterated a second time; "
            "expected a loader that begins again from job.sampler after a rank is lost. Pass the "
            "DataLoader, and put a generator around job.batches instead: "
            "work(job.batches(loader)). Or pass an object whose __iter__ is such a generator")


def keeps_order(loader: Any, sampler: Sampler) -> bool:
    """Whether `loader` yields one batch for each that it draws of `sampler`, in their order, by
    what torch promises."""
    return (
        isinstance(loader, torch.utils.data.DataLoader)
        and type(loader).__iter__ is torch.utils.data.DataLoader.__iter__
        and getattr(loader, "in_order", True)  # since torch 2.6
        and (loader.batch_sampler is sampler
             or loader.batch_sampler is None and loader.sampler is sampler))


_has_told = False


def tell_unseen(why: str) -> None:
    """Once: from here on the job knows less than its totals could say."""
    global _has_told
    if not _has_told:
        _has_told = True
        print(f"lockstep: {why}, so the job does not see which samples its batches have. It "
              "counts the samples that were drawn from the sampler. To have the batches checked, "
              "pass the DataLoader itself to job.batches, and give each tensor and list of a batch "
              "as many rows as it has samples. If a collate_fn drops samples, remove them from the "
              "dataset instead: they count as used", file=sys.stderr, flush=True)


def sizes_of(batch: Any, depth: int = _DEPTH_MAX) -> set[int]:
    """How many samples `batch` may have: rows of its tensors and arrays, and the lengths of lists
    of samples; a list whose members have equally many rows, but for those without any, as a
    number, is one of fields."""
    rows = _rows(batch)
    if rows is not None or depth == 0:
        return set() if rows is None else {rows}
    if isinstance(batch, Mapping):
        return set().union(*(sizes_of(one, depth - 1) for one in batch.values()))
    if not isinstance(batch, (list, tuple)):
        return set()
    each = [sizes for one in batch if (sizes := sizes_of(one, depth - 1))]
    has_fields = bool(each) and bool(set.intersection(*each))
    return set().union(*each, set() if has_fields else {len(batch)})


def _rows(one: Any) -> Optional[int]:
    shape = getattr(one, "shape", None)
    return int(shape[0]) if isinstance(shape, tuple) and shape else None
