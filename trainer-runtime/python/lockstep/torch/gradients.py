"""What a step adds up over the ranks: gradients, buffers, the loss, and the samples' ids."""

from __future__ import annotations

from typing import Iterable, NamedTuple, Optional, Union

import torch

from lockstep.arguments import real_number
from lockstep.errors import InvalidArgument
from lockstep.session import Pending
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
                f"loss: shape {list(loss.shape)} found, expected one number, the mean over the "
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


class StepSum(NamedTuple):
    """What a step came to on all ranks together."""

    loss: Optional[float]  # the mean; None where no rank gave one
    ids: torch.Tensor  # of the samples that were used
    changed_count: int  # of ranks whose weights something has changed since the last step


class StepReducer:
    """The mean of gradients over all samples of a global batch, weighted by each rank's part.

    Floating-point buffers that a step has changed (BatchNorm's) become the mean as well, and counts
    of steps the largest, so that all ranks hold the same bits after it. On the host: gradients of
    GPUs are copied there and back. Thread: one.
    """

    def __init__(
        self, parameters: Iterable[torch.nn.Parameter], buffers: Iterable[torch.Tensor]
    ) -> None:
        self._parameters = [one for one in parameters if one.requires_grad]
        self._buffers = list(buffers)
        self._means = [one for one in self._buffers if one.is_floating_point()]
        self._counts = [one for one in self._buffers if one.dtype == torch.int64]
        self._before: list[torch.Tensor] = []
        self._versions = self._versions_now()
        self._flat = fuse([one.detach() for one in [*self._parameters, *self._means]])

    def begin_step(self) -> None:
        """Remembers the buffers, which the forward pass changes."""
        self._before = [buffer.detach().clone() for buffer in self._buffers]

    def note_weights(self) -> None:
        """They are as all ranks have them: what changes them from now on is somebody else."""
        self._versions = self._versions_now()

    def _versions_now(self) -> list[int]:
        return [one._version for one in self._parameters]

    def forget_step(self) -> None:
        """Takes back what the step has changed. Precondition: `begin_step`."""
        with torch.no_grad():
            for buffer, before in zip(self._buffers, self._before):
                buffer.copy_(before)

    def reduce(self, session: Session, share: StepShare, timeout: float) -> StepSum:
        """Collective. Nothing but this object's own memory changes before all has arrived, so that
        a step that fails can be forgotten.

        Errors: those of collectives; InvalidArgument (sparse gradients; a rank whose samples count
        has no gradient at all: raised on all).
        """
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
        ids = _gather_ids(session, share.ids, timeout)
        for one in pending:
            one.wait()
        lacking, changed, loss, loss_weight = tail[-4:].tolist()
        if lacking > 0 and self._parameters:
            raise InvalidArgument(
                f"step: no parameter has a gradient on {int(lacking)} of {session.size} ranks, "
                "expected one on each: call loss.backward() before it")
        self._store(tail, counts)
        return StepSum(loss / loss_weight if loss_weight > 0 else None, ids, int(changed))

    def _uses(self) -> list[float]:
        """1 for each tensor that the step has a say on: parameters with a gradient, buffers that
        have changed."""
        before = [one for one in self._before if one.is_floating_point()]
        used = [parameter.grad is not None for parameter in self._parameters]
        used += [not torch.equal(now, then) for now, then in zip(self._means, before)]
        return [float(one) for one in used]

    def _fill(self, view: torch.Tensor, place: int) -> None:
        if place >= len(self._parameters):
            view.copy_(self._means[place - len(self._parameters)])
            return
        gradient = self._parameters[place].grad
        if gradient is None:
            view.zero_()
        elif gradient.layout != torch.strided:
            raise InvalidArgument(f"gradient: {gradient.layout} found, expected a dense one")
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


def _gather_ids(session: Session, ids: list[int], timeout: float) -> torch.Tensor:
    """The ids of all ranks in their order."""
    counts = session.all_gather(torch.tensor([len(ids)], dtype=torch.int64), timeout)
    own = torch.zeros(int(counts.max()), dtype=torch.int64)
    own[: len(ids)] = torch.tensor(ids, dtype=torch.int64)
    each = session.all_gather(own, timeout)
    return torch.cat([one[: int(count)] for one, count in zip(each, counts)])
