"""What a `Job` has saved, for programs that use the model: evaluators, and those of later."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import Any, Optional, Union

from lockstep.errors import LockstepError, Status
from lockstep.torch.checkpoint import CheckpointStore, Removed, tell_skipped
from lockstep.torch.checkpoint_format import decode
from lockstep.torch.state import unflatten

# Choice: a try fails where a job removes all that was found before it is read.
_TRIES_MAX = 10


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """`model` is for `load_state_dict`; `extra` has the state behind each key of the job's."""

    step: int
    model: dict[str, Any]
    extra: dict[str, Any]


def newest_checkpoint(directory: Union[str, os.PathLike[str]]) -> Optional[Checkpoint]:
    """The newest whole one that a `Job` has saved in `directory`; None where there is none. Any
    process may ask, also while the job trains. Damaged ones are named on standard error.

    Errors: Mismatch (the newest is of a later release), LockstepError (there are some, and all are
    damaged; one, or the directory, cannot be read; names it).
    """
    for _ in range(_TRIES_MAX - 1):
        with contextlib.suppress(Removed):
            return _newest(directory)
    return _newest(directory)


def _newest(directory: Union[str, os.PathLike[str]]) -> Optional[Checkpoint]:
    damage: Optional[str] = None
    for folder, manifest, raw in CheckpointStore(directory, keep=1).whole():
        try:
            if "lockstep.torch" not in (manifest.get("fingerprint") or {}):
                raise ValueError("it was not written by lockstep.torch.Job")
            state = unflatten(decode(raw))
            return Checkpoint(manifest["step"], state["model"], state["extra"])
        except (ValueError, KeyError, TypeError) as problem:
            tell_skipped(folder, str(problem))
            damage = damage or f"{folder}: {problem}"
    if damage is not None:
        raise LockstepError(f"no checkpoint in {directory} can be used: {damage}", Status.SYSTEM)
    return None
