"""What a step adds up over the ranks: gradients, buffers, the loss, and the samples' ids."""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple, Optional, Union

import torch

from lockstep.arguments import real_number
from lockstep.errors import InvalidArgument, Mismatch, Status
from lockstep.session import Pending, Progress
from lockstep.torch.agreement import check_agreement, check_equal, ranks_text
from lockstep.torch.holdings import Holdings, is_finite
from lockstep.torch.session import Session

# Choice: large enough that a call's own cost vanishes, small enough that filling one overlaps with
# the reduction of the one before.
_BUCKET_BYTES = 4 << 20


def loss_of(loss: Union[torch.Tensor, float, None]) -> Optional[float]:
    """As a number. Errors: InvalidArgument (it is none, or of several)."""
    if loss is None:
        return None
    if isinstance(loss, torch.Tensor):
        if loss.numel() != 1:
            raise InvalidArgument(
                f"loss: shape {list(loss.shape)} found, expected one number: the mean over the "
                "batch's samples")
        loss = loss.detach().item()
    return real_number("loss", loss)


class Bucket(NamedTuple):
    """Tensors that are reduced in one call."""

    flat: torch.Tensor
    parts: list[tuple[int, torch.Tensor]]  # place of the tensor, and its view of `flat`
    marks: torch.Tensor  # a number for each part, at the end of `flat`; none where not asked for


def fuse(tensors: list[torch.Tensor], has_marks: bool = False) -> list[Bucket]:
    """Memory for tensors like these, on the host: those of one type side by side, in their
    order."""
    groups: list[list[int]] = []
    for place, tensor in enumerate(tensors):
        newest = groups[-1] if groups else []
        size = sum(tensors[other].numel() for other in newest) * tensor.element_size()
        if newest and tensors[newest[0]].dtype == tensor.dtype and size < _BUCKET_BYTES:
            newest.append(place)
        else:
            groups.append([place])
    buckets = []
    for group in groups:
        counts = [tensors[place].numel() for place in group]
        counts.append(len(group) if has_marks else 0)
        flat = torch.zeros(sum(counts), dtype=tensors[group[0]].dtype)
        *parts, marks = torch.split(flat, counts)
        views = [view.reshape(tensors[place].shape) for view, place in zip(parts, group)]
        buckets.append(Bucket(flat, list(zip(group, views)), marks))
    return buckets


class StepShare(NamedTuple):
    """One rank's part of a step."""

    ids: list[int]
    global_size: int  # samples of all ranks
    loss: Optional[float]
    unseen_count: int = 0  # of `ids`, those of which the batch shows nothing


class StepSum(NamedTuple):
    """What a step came to on all ranks together."""

    loss: Optional[float]  # the mean; None where no rank gave one
    ids: torch.Tensor  # of the samples that were used
    changed_count: int  # of ranks whose weights something has changed since the last step
    is_finite: bool  # all gradients are
    unseen_count: int  # of the samples of `ids`


class LeftLoop(Exception):
    """Some ranks have left the loop, and others take a step."""

    def __init__(self, leaving: list[int], staying: list[int]) -> None:
        super().__init__()
        self.leaving = leaving
        self.staying = staying

    def error(self, progress: Progress) -> Mismatch:
        """Equal on all ranks."""
        return Mismatch(
            f"{ranks_text(self.leaving)} left the loop after step {progress.step} of "
            f"{progress.steps_total}, but {ranks_text(self.staying)} continued: all ranks must "
            "leave the loop after the same step. Decide by a value that is equal on all ranks, "
            "for example from job.session.all_reduce", Status.MISMATCH)


# What a rank that leaves says in place of its number of samples.
_LEAVES = -1


class StepReducer:
    """The mean of gradients over all samples of a global batch, weighted by each rank's part.

    Floating-point buffers that a step has changed (BatchNorm's) become the mean as well, and counts
    of steps the largest, so that all ranks hold the same bits after it. What there is to reduce is
    looked up anew in each step. On the host: gradients of GPUs are copied there and back. Thread:
    one.
    """

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._known: dict[int, torch.Tensor] = {}  # parameters that are equal on all ranks, by id
        self._marks: list[tuple[int, bool, torch.Size, torch.dtype]] = []
        self._before: dict[str, torch.Tensor] = {}
        self.note_equal()

    def _look(self) -> None:
        """Takes what there is to reduce from the model and the optimizer of now."""
        self._all = self._holdings.parameters()
        self._parameters = [one for one in self._all.values() if one.requires_grad]
        buffers, _ = self._holdings.buffers()
        self._mean_names = [name for name, one in buffers.items() if one.is_floating_point()]
        self._means = [buffers[name] for name in self._mean_names]
        self._counts = [one for one in buffers.values() if one.dtype == torch.int64]
        marks = [(id(one), one.requires_grad, one.shape, one.dtype)
                 for one in [*self._all.values(), *buffers.values()]]
        if marks == self._marks:
            return
        self._marks = marks
        self._set = {
            name: f"{list(one.shape)} {one.dtype}" + ("" if one.requires_grad else ", not trained")
            for name, one in [*self._all.items(), *buffers.items()]}
        digest = hashlib.sha256(json.dumps(self._set).encode()).digest()
        self._signature = int.from_bytes(digest[:7], "little")
        # Buffers may have infinities, as masks do, so they have buckets of their own.
        gradients = fuse([one.detach() for one in self._parameters])
        self._gradient_flats = [bucket.flat for bucket in gradients]
        count = len(self._parameters)
        means = [bucket._replace(parts=[(count + place, view) for place, view in bucket.parts])
                 for bucket in fuse(self._means)]
        self._flat = [*gradients, *means]

    def begin_step(self) -> None:
        """Remembers the buffers, which the forward pass changes."""
        state, own = self._holdings.buffers()
        self._before = {name: one.detach().clone() for name, one in [*state.items(), *own.items()]}

    def note_equal(self) -> None:
        """All ranks hold the same, of which one has handed it to the others."""
        self._look()
        self._known = {id(one): one for one in self._all.values()}
        self.note_weights()

    def note_weights(self) -> None:
        """They are as all ranks have them: what changes them from now on is somebody else."""
        self._versions = self._versions_now()

    def _versions_now(self) -> dict[int, int]:
        return {key: one._version for key, one in self._known.items()}

    def forget_step(self) -> None:
        """Takes back what the step has changed. Precondition: `begin_step`."""
        with torch.no_grad():
            for buffers in self._holdings.buffers():
                for name, buffer in buffers.items():
                    before = self._before.get(name)
                    if before is not None and buffer.shape == before.shape:
                        buffer.copy_(before)

    def say_leaving(self, session: Session, timeout: float) -> None:
        """In place of a step, of a rank that takes no other. Collective with those of others.

        Errors: LeftLoop (some take a step), those of collectives.
        """
        self._meet_others(session, _LEAVES, timeout)

    def _meet_others(
        self, session: Session, count: int, timeout: float, unseen_count: int = 0,
        has_inf: bool = False,
    ) -> torch.Tensor:
        """What all ranks are about: `count` samples, which parameters, how many new ones, how many
        samples were not seen, and whether a GradScaler has found infinities.

        Shapes: result [size, 5] of int64. Errors: LeftLoop, on all ranks.
        """
        new = sum(id(one) not in self._known for one in self._all.values())
        own = torch.tensor(
            [count, self._signature, new, unseen_count, int(has_inf)], dtype=torch.int64)
        each = session.all_gather(own, timeout)
        ranks = range(session.size)
        leaving = [rank for rank in ranks if int(each[rank][0]) == _LEAVES]
        if leaving and len(leaving) < session.size:
            raise LeftLoop(leaving, [rank for rank in ranks if rank not in leaving])
        return each

    def _agree(self, session: Session, each: torch.Tensor, timeout: float) -> None:
        """All have the same parameters to train, and equal new ones. Errors: Mismatch."""
        if not bool((each[:, 1] == each[0, 1]).all()):
            check_agreement(session, self._set, timeout, "step: ")
        if not bool((each[:, 2] == 0).all()):
            hashes = self._holdings.parameter_hashes()
            check_equal(
                session, hashes, timeout, "a parameter that was added or replaced must start with "
                "the same values on all ranks: create it before the Job, or seed torch with the "
                "same number on all ranks")
            self._known = {id(one): one for one in self._all.values()}
            self.note_weights()

    def reduce(self, session: Session, share: StepShare, timeout: float) -> StepSum:
        """Collective. Nothing but this object's own memory changes before all has arrived, so that
        a step that fails can be forgotten.

        Errors: those of collectives; LeftLoop; Mismatch (ranks train other parameters, or new ones
        with other values: names one); InvalidArgument (sparse gradients; a rank whose samples count
        has no gradient at all: raised on all).
        """
        self._look()
        each = self._meet_others(session, len(share.ids), timeout, share.unseen_count)
        self._agree(session, each, timeout)
        weight = len(share.ids) / share.global_size
        pending: list[Pending[torch.Tensor]] = []
        for bucket in self._flat:
            for place, view in bucket.parts:
                self._fill(view, place)
            if weight > 0:
                bucket.flat.mul_(weight)
            else:
                bucket.flat.zero_()  # of no sample that counts, whatever it came to
            pending.append(session.begin_all_reduce(bucket.flat, "sum", timeout))
        uses = self._uses()
        lacks_gradients = weight > 0 and not any(uses[: len(self._parameters)])
        # Small, and exact in doubles.
        tail = torch.tensor(
            [*uses, float(lacks_gradients), float(self._versions != self._versions_now()),
             (share.loss or 0.0) * weight if weight > 0 else 0.0,
             0.0 if share.loss is None else weight], dtype=torch.float64)
        session.all_reduce(tail, "sum", timeout)
        counts = [one.detach().reshape(-1).cpu() for one in self._counts]
        if counts:
            newest = session.all_reduce(torch.cat(counts), "max", timeout)
            counts = list(torch.split(newest, [one.numel() for one in counts]))
        ids = _gather_ids(session, share.ids, each[:, 0], timeout)
        for one in pending:
            one.wait()
        lacking, changed, loss, loss_weight = tail[-4:].tolist()
        if lacking > 0 and self._parameters:
            raise InvalidArgument(
                f"step: no parameter has a gradient on {int(lacking)} of {session.size} ranks, "
                "expected gradients on each rank: call loss.backward() before step")
        are_finite = all(map(is_finite, self._gradient_flats))
        self._store(tail, counts)
        return StepSum(loss / loss_weight if loss_weight > 0 else None, ids, int(changed),
                       are_finite, int(each[:, 3].sum()))

    def _uses(self) -> list[float]:
        """1 for each tensor that the step has a say on: parameters with a gradient, buffers that
        have changed or were not there before."""
        used = [parameter.grad is not None for parameter in self._parameters]
        used += [name not in self._before or not torch.equal(now, self._before[name])
                 for name, now in zip(self._mean_names, self._means)]
        return [float(one) for one in used]

    def _fill(self, view: torch.Tensor, place: int) -> None:
        if place >= len(self._parameters):
            view.copy_(self._means[place - len(self._parameters)])
            return
        gradient = self._parameters[place].grad
        if gradient is None:
            view.zero_()
        elif gradient.layout != torch.strided:
            raise InvalidArgument(f"gradient: {gradient.layout} found, expected a dense gradient")
        else:
            view.copy_(gradient)

    def _store(self, tail: torch.Tensor, counts: list[torch.Tensor]) -> None:
        uses = tail.tolist()
        with torch.no_grad():
            for place, view in (part for bucket in self._flat for part in bucket.parts):
                if uses[place] == 0:
                    continue
                if place >= len(self._parameters):
                    self._means[place - len(self._parameters)].copy_(view)
                    continue
                parameter = self._parameters[place]
                if parameter.grad is None:
                    parameter.grad = torch.empty_like(parameter)
                parameter.grad.copy_(view)
            for own, newest in zip(self._counts, counts):
                own.copy_(newest.reshape(own.shape))


def _gather_ids(
    session: Session, ids: list[int], counts: torch.Tensor, timeout: float
) -> torch.Tensor:
    """The ids of all ranks in their order, of which each has so many."""
    own = torch.zeros(int(counts.max()), dtype=torch.int64)
    own[: len(ids)] = torch.tensor(ids, dtype=torch.int64)
    each = session.all_gather(own, timeout)
    return torch.cat([one[: int(count)] for one, count in zip(each, counts)])
