"""What a `Job` has saved, for programs that use the model: evaluators, and those of later."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Optional, Union

from lockstep.errors import LockstepError, Status
from lockstep.torch.checkpoint_files import CheckpointFiles, report


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
    files = CheckpointFiles(directory, keep=0)
    foreign: Optional[str] = None
    found = files.newest()
    while found is not None:
        try:
            if found.fingerprint is None or found.tree is None:
                raise ValueError("lockstep.torch.Job did not write it")
            state = found.state()
            return Checkpoint(found.step, state["model"], state["extra"])
        except (ValueError, KeyError, TypeError) as problem:
            report(f"checkpoint skipped: {found.folder}: {problem}")
            foreign = foreign or f"{found.folder}: {problem}"
        found = files.newest(below=found.step)
    if foreign is not None:
        raise LockstepError(f"no checkpoint in {directory} can be used: {foreign}", Status.SYSTEM)
    return None
