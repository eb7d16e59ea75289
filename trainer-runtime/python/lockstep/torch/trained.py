"""What a `Job` has saved, for programs that use the model: evaluators, and those of later."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any, Optional, Union

from lockstep.errors import LockstepError, Status
from lockstep.torch.checkpoint import CheckpointStore, tell_skipped
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

    Errors: LockstepError (there are some, and all are damaged; one cannot be read; names it).
    """
    store = CheckpointStore(directory, keep=1)
    for _ in range(_TRIES_MAX):
        steps = store.steps() if pathlib.Path(directory).is_dir() else []
        damage: Optional[Exception] = None
        for step, folder in reversed(steps):
            try:
                return _read(store, step, folder)
            except (FileNotFoundError, NotADirectoryError) as error:
                if not folder.exists():
                    continue  # it was removed meanwhile
                damage = error
            except (ValueError, KeyError, TypeError) as error:
                damage = error
            except OSError as error:
                raise LockstepError(f"{folder} cannot be read: {error}", Status.SYSTEM) from error
            tell_skipped(folder, str(damage))
        if damage is not None:
            raise LockstepError(
                f"no checkpoint in {directory} can be used: {damage}", Status.SYSTEM)
        if not steps:
            return None
    raise LockstepError(f"{directory}: all checkpoints were removed while they were read, "
                        f"{_TRIES_MAX} times in a row", Status.SYSTEM)


def _read(store: CheckpointStore, step: int, folder: pathlib.Path) -> Checkpoint:
    manifest, raw = store.read(step, folder, own_steps=[])
    if "lockstep.torch" not in manifest["fingerprint"]:
        raise ValueError("it is not of a lockstep.torch.Job")
    state = unflatten(decode(raw))
    return Checkpoint(step, state["model"], state["extra"])
