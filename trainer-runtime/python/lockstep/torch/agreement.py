"""What all ranks have to come with alike, and which of it is not."""

from __future__ import annotations

import hashlib
import json
from typing import Mapping, Optional, Sequence

import torch

from lockstep.errors import Mismatch, Status
from lockstep.torch.session import Session

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


def _tensor_of(text: bytes) -> torch.Tensor:
    return torch.tensor(list(text), dtype=torch.uint8)


def check_agreement(session: Session, terms: Terms, timeout: float) -> None:
    """Compares the terms of all ranks: by their hash, and where these differ by name. Collective.

    Errors: Mismatch (equal on all ranks), those of `all_gather`.
    """
    text = json.dumps(terms).encode()
    digest = _tensor_of(hashlib.sha256(text).digest())
    digests = session.all_gather(digest, timeout)
    if bool((digests == digests[0]).all()):
        return
    length = torch.tensor([len(text)], dtype=torch.int64)
    lengths = session.all_gather(length, timeout).flatten().tolist()
    padded = _tensor_of(text.ljust(max(lengths)))
    each = session.all_gather(padded, timeout)
    found = first_difference([json.loads(bytes(row.tolist())) for row in each])
    raise Mismatch(found or "ranks came with the same in another order", Status.MISMATCH)
