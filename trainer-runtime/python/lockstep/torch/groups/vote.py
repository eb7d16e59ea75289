"""Whether all ranks have come through a step, and what it came to."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import struct
from typing import Optional

import torch

from lockstep.errors import InvalidArgument
from lockstep.torch.gradients import StepReducer, StepShare, StepSum
from lockstep.torch.holdings import Holdings
from lockstep.torch.session import Session


def _bits_of(number: float) -> int:
    bits: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return bits


def _number_of(bits: int) -> float:
    number: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return number


class StepVote(StepReducer):
    """As a StepReducer, of gradients that the model's own groups have summed: it asks whether all
    ranks hold them, by the session and not by these groups, which may fail on some ranks alone.
    """

    def __init__(self, holdings: Holdings) -> None:
        super().__init__(holdings)
        self.found_inf = False  # by this rank's GradScaler; before the vote: by any

    def _look(self) -> None:
        """Takes what there is from the model and the optimizer of now; no memory for sums."""
        self._all = self._holdings.parameters()
        self._parameters = [one for one in self._all.values() if one.requires_grad]
        self._set = {name: f"{list(one.shape)} {one.dtype}"
                     + ("" if one.requires_grad else ", not trained")
                     for name, one in self._all.items()}
        digest = hashlib.sha256(json.dumps(self._set).encode()).digest()
        self._signature = int.from_bytes(digest[:7], "little")

    def reduce(self, session: Session, share: StepShare, timeout: float) -> StepSum:
        """Collective. Once it has returned on one rank, all hold the step's gradients.

        Errors: as those of the base.
        """
        self._look()
        used = [one.grad for one in self._parameters if one.grad is not None]
        has_loss = share.loss is not None
        row = [
            int(bool(self._parameters) and not used and bool(share.ids)),
            int(self._versions != self._versions_now()),
            int(has_loss), _bits_of(share.loss if share.loss is not None else 0.0),
            int(are_finite(used)),
        ]
        each = self._meet_others(
            session, len(share.ids), timeout, share.unseen_count, self.found_inf)
        # A rank that does not hear the outcome of the vote knows it all the same.
        self.found_inf = bool(each[:, 4].any())
        self._agree(session, each, timeout)
        counts = each[:, 0].tolist()
        words = torch.zeros(len(row) + max(counts), dtype=torch.int64)
        words[: len(row) + len(share.ids)] = torch.tensor([*row, *share.ids])
        rows = session.all_gather(words, timeout).tolist()  # the vote
        lacking = sum(one[0] for one in rows)
        if lacking:
            raise InvalidArgument(
                f"step: no parameter has a gradient on {lacking} of {session.size} ranks, "
                "expected gradients on each rank: call loss.backward() before step")
        losses = [(count, _number_of(one[3])) for count, one in zip(counts, rows) if one[2]]
        weight = sum(count for count, _ in losses)
        loss: Optional[float] = (
            sum(count * one for count, one in losses) / weight if weight > 0 else None)
        ids = [one[len(row): len(row) + count] for count, one in zip(counts, rows)]
        return StepSum(
            loss, torch.tensor(list(itertools.chain.from_iterable(ids)), dtype=torch.int64),
            sum(one[1] for one in rows), all(one[4] for one in rows), int(each[:, 3].sum()))


def are_finite(gradients: list[torch.Tensor]) -> bool:
    """Whether all are, by one look at the device."""
    local = [getattr(one, "_local_tensor", one) for one in gradients]
    dense = [one for one in local if one.layout == torch.strided and one.numel() > 0]
    if not dense:
        return True
    norms = torch._foreach_norm(dense, ord=math.inf)  # which does not overflow
    return bool(torch.isfinite(torch.stack([one.to(norms[0].device).float() for one in norms])
                               ).all())
