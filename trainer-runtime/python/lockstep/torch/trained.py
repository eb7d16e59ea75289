"""Reads what a `Job` has saved, for evaluators and for programs that use the model later."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Optional, Union

from lockstep.errors import LockstepError, Status
from lockstep.torch.checkpoint_files import CheckpointFiles, report


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """`model` is for `load_state_dict`. `extra` has the state for each key of the job's `extra`."""

    step: int
    model: dict[str, Any]
    extra: dict[str, Any]


def newest_checkpoint(directory: Union[str, os.PathLike[str]]) -> Optional[Checkpoint]:
    """Returns the newest complete checkpoint that a `Job` has saved in `directory`; None: there is
    none. Any process may call this, even while the job trains. Damaged checkpoints are skipped and
    named on standard error.

    Errors: Mismatch (a later release wrote the newest checkpoint), LockstepError (all checkpoints
    are damaged, or a checkpoint or the directory cannot be read; names it).
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
