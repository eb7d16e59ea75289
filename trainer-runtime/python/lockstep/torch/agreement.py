"""What all ranks have to come with alike, and which of it is not."""

from __future__ import annotations

import hashlib
import json
from typing import Mapping, Optional, Sequence

import torch

from lockstep.errors import Mismatch, Status
from lockstep.torch.session import Session

_RANKS_SHOWN = 8  # choice: a line's worth
_DIFFERENCES_SHOWN = 5  # as the built-in trainer: common/contract/training/state_fingerprint.cc

Terms = Mapping[str, str]  # values by the names that a message has for them


def first_difference(each: Sequence[Terms]) -> Optional[str]:
    """Of the terms of all ranks from those of rank 0, as a sentence; None: there is none."""
    for rank, terms in enumerate(each):
        for name in [*each[0], *terms]:
            expected, found = each[0].get(name, "none"), terms.get(name, "none")
            if found != expected:
                return (f"{name} {found} found on rank {rank}, expected {expected}, as on "
                        "rank 0")
    return None


def differences(own: Terms, saved: Terms) -> Optional[str]:
    """Of this job's terms from those of a saved state, in the built-in trainer's words; None: there
    are none."""
    each = [f"{name}: {own.get(name, 'none')} found, the saved state was made with "
            f"{saved.get(name, 'none')}"
            for name in {**own, **saved} if own.get(name) != saved.get(name)]
    more = [f"and {len(each) - _DIFFERENCES_SHOWN} more"] if len(each) > _DIFFERENCES_SHOWN else []
    return "; ".join(each[:_DIFFERENCES_SHOWN] + more) or None


def _tensor_of(text: bytes) -> torch.Tensor:
    return torch.tensor(list(text), dtype=torch.uint8)


def _gather_terms(
    session: Session, terms: Terms, timeout: float, ranks: Optional[Sequence[int]] = None
) -> Optional[list[Terms]]:
    """Those of all ranks; None where they are equal on `ranks`, by default all, which their hash
    tells. Collective."""
    text = json.dumps(terms).encode()
    digest = _tensor_of(hashlib.sha256(text).digest())
    digests = session.all_gather(digest, timeout)
    compared = digests if ranks is None else digests[list(ranks)]
    if bool((compared == compared[0]).all()):
        return None
    length = torch.tensor([len(text)], dtype=torch.int64)
    lengths = session.all_gather(length, timeout).flatten().tolist()
    padded = _tensor_of(text.ljust(max(lengths)))
    each = session.all_gather(padded, timeout)
    return [json.loads(bytes(row.tolist())) for row in each]


def check_agreement(
    session: Session, terms: Terms, timeout: float, beginning: str = ""
) -> None:
    """Compares the terms of all ranks, and where they differ names the first, after `beginning`.
    Collective.

    Errors: Mismatch (equal on all ranks), those of `all_gather`.
    """
    each = _gather_terms(session, terms, timeout)
    if each is not None:
        found = first_difference(each) or "the ranks have the same parts, but in a different order"
        raise Mismatch(beginning + found, Status.MISMATCH)


def check_equal(
    session: Session, hashes: Terms, timeout: float, rule: str,
    ranks: Optional[Sequence[int]] = None,
) -> None:
    """Compares hashes of what `ranks` should hold alike, by default all. `rule`: what makes it so.
    Collective: the other ranks come with whatever they have.

    Errors: Mismatch (equal on all ranks; names the first that differs, and the ranks), those of
    `all_gather`.
    """
    # In one order: an optimizer's own is that in which parameters were used first.
    each = _gather_terms(session, dict(sorted(hashes.items())), timeout, ranks)
    if each is None:
        return
    ranks = range(len(each)) if ranks is None else ranks
    first = each[ranks[0]]
    for name in sorted({name for rank in ranks for name in each[rank]}):
        others = [rank for rank in ranks if each[rank].get(name) != first.get(name)]
        if others:
            raise Mismatch(
                f"{name} differs between rank {ranks[0]} and {ranks_text(others)}: {rule}",
                Status.MISMATCH)


def are_equal(session: Session, digest: str, timeout: float) -> bool:
    """Whether all ranks have come with one. Collective. Errors: those of `all_gather`."""
    digests = session.all_gather(_tensor_of(bytes.fromhex(digest)), timeout)
    return bool((digests == digests[0]).all())


def ranks_text(ranks: Sequence[int]) -> str:
    """As words of a sentence: "rank 1", "ranks 1, 2 and 5 others"."""
    shown = ", ".join(str(rank) for rank in ranks[:_RANKS_SHOWN])
    more = len(ranks) - _RANKS_SHOWN
    return ("rank " if len(ranks) == 1 else "ranks ") + shown + (
        f" and {more} others" if more > 0 else "")
