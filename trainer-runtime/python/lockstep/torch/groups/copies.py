"""Copies of shards in the memory of other pods, for a model whose shards one rank each holds.

Local words: a rank's *holder* keeps a copy of its shard; it is the rank with the same place in the
next pod. A copy of a step *counts* once all ranks have theirs.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Optional

import torch

from lockstep.arguments import whole_number
from lockstep.errors import InvalidArgument
from lockstep.session import Member
from lockstep.torch.groups.models import Plain
from lockstep.torch.groups.shards import Sharded, shard_lost
from lockstep.torch.session import Session
from lockstep.torch.state import FlatState, broadcast_state, flatten, unflatten

_RANKS_PER_POD_VARIABLE = "LOCKSTEP_PROCESSES"  # equal in all pods that train

# The copy that counts, and a newer one of which this rank does not know whether it does.
_KEPT_MAX = 2
_NONE = -1  # in place of a step


class Kept(NamedTuple):
    """What a rank keeps of one step."""

    own: dict[str, Any]  # all that this rank held; its "shard" is what its holder has as well
    held: dict[str, Any]  # the shard of the rank whose holder this one is


class Copies:
    """Those that this rank keeps, in the host's memory. Nothing is copied or sent but by `take`.
    Thread: one."""

    def __init__(self, every: int, size: int, ranks_per_pod: int) -> None:
        """`every`: steps between two copies. `size`: ranks of the job, which has several pods."""
        self.every = every
        self._size = size
        self._ranks_per_pod = ranks_per_pod
        self._kept: dict[int, Kept] = {}  # by step

    def is_due(self, step: int) -> bool:
        """Whether to copy what ranks hold after `step` steps. Equal on all ranks."""
        return step > 0 and step % self.every == 0

    def holder(self, rank: int) -> int:
        """Who keeps a copy of the shard of `rank`."""
        return (rank + self._ranks_per_pod) % self._size

    def take(self, session: Session, step: int, state: dict[str, Any], timeout: float) -> None:
        """Copies `state`, what this rank holds after `step` steps, and hands its "shard" to its
        holder. The copy before is kept until all ranks have this one. Collective. Errors: MeetAgain
        (it counts on all ranks or on none, which `agree` finds out)."""
        own = _on_host(state)
        held: dict[str, Any] = {}
        for rank in range(self._size):
            is_holder = self.holder(rank) == session.rank
            found = broadcast_state(
                session, own["shard"] if rank == session.rank else None, rank, timeout, is_holder)
            if is_holder:
                held = found
        self._kept[step] = Kept(own, held)
        session.barrier(timeout)
        self._forget_others(step)

    def agree(
        self, session: Session, members: tuple[Member, ...], has_left_loop: bool, timeout: float
    ) -> int:
        """The step of the newest copy that counts, in a meeting in which some ranks have no state.
        All others are forgotten: steps may come to other bits when they are repeated.
        `has_left_loop`: this rank can repeat none. Collective.

        Errors: ShardLost, on all ranks alike; MeetAgain.
        """
        own = sorted(self._kept)[-_KEPT_MAX:]
        padded = own + [_NONE] * (_KEPT_MAX - len(own))
        each = session.all_gather(torch.tensor([int(has_left_loop), *padded]), timeout).tolist()
        left = [one for one in members if one.has_state]
        lost = [one.rank for one in members if not one.has_state]
        newest = max(one.step for one in left)
        for rank in lost:
            holder = self.holder(rank)
            if holder in lost:
                raise shard_lost(
                    rank, newest, f"rank {holder}, which had the copy of it, is lost as well")
        if any(row[0] for row in each):
            raise shard_lost(lost[0], newest, "the other ranks have left the loop, and cannot "
                                              "repeat the steps since its newest copy")
        step = max(set.intersection(*(set(each[one.rank][1:]) for one in left)), default=_NONE)
        if step == _NONE:
            raise shard_lost(
                lost[0], newest, f"no copy was made yet, as copy_every is {self.every}")
        if members[session.rank].has_state:
            self._forget_others(step)
        return step

    def own(self, step: int) -> dict[str, Any]:
        """What this rank held after `step` steps, to keep and to change."""
        return _on_host(self._kept[step].own)

    def held(self, step: int) -> dict[str, Any]:
        """The shard, after `step` steps, of the rank whose holder this one is."""
        return self._kept[step].held

    def _forget_others(self, step: int) -> None:
        self._kept = {step: self._kept[step]}


def copies_for(every: Optional[int], model: Plain) -> Optional[Copies]:
    """Errors: InvalidArgument (`every` is no number of steps, or copies of `model` are of no use
    in this job)."""
    if every is None:
        return None
    found = f"copy_every: {whole_number('copy_every', every, least=1)} found"
    if not isinstance(model, Sharded):
        raise InvalidArgument(
            f"{found}, but each rank holds the whole model and gives it to a replacement; remove "
            "copy_every, which is for models of fully_shard")
    if model.twins(0):
        raise InvalidArgument(
            f"{found}, but on this mesh other ranks hold the same shards and give them to a "
            "replacement; remove copy_every, which is for a mesh without replicas")
    ranks_per_pod = int(os.environ.get(_RANKS_PER_POD_VARIABLE) or 1)
    if ranks_per_pod >= model.size:
        raise InvalidArgument(
            f"{found}, but all {model.size} ranks are in one pod, and a copy has to be in another "
            "pod; use several pods, or remove copy_every")
    return Copies(every, model.size, ranks_per_pod)


def _on_host(state: dict[str, Any]) -> dict[str, Any]:
    """A copy of all of it, in the host's memory."""
    flat = flatten(state)
    tensors = {name: torch.empty(one.shape, dtype=one.dtype).copy_(one)
               for name, one in flat.tensors.items()}
    copied: dict[str, Any] = unflatten(FlatState(flat.tree, tensors))
    return copied
