"""The options of a training loop."""

from __future__ import annotations

import dataclasses
import os
from typing import ClassVar, Optional, Union

from lockstep.arguments import folder, seconds, text, truth, whole_number


@dataclasses.dataclass(frozen=True)
class JobOptions:
    """The options of a `Job`.

    - `plan`: a text that must be equal on all ranks and in the checkpoint.
    - `checkpoint_directory`: where checkpoints go; by default LOCKSTEP_CHECKPOINT_DIR. If neither
      is set, nothing is saved.
    - `checkpoint_every`: steps between two checkpoints. 0: only at the end and at a stop.
    - `checkpoint_keep`: how many checkpoints to keep.
    - `call_seconds`: the time limit of each wait for other ranks within a step. Lost or frozen
      ranks are noticed far sooner; this limit is for ranks that live but make no matching call.
    - `meeting_seconds`: the time limit of a rendezvous; by default `rendezvousTimeoutSeconds`.
    - `state_seconds`: the time limit of waits in which rank 0 may read or write a checkpoint.
    - `compare_every`: steps between two comparisons of all ranks' state by hash. All ranks also
      compare before each checkpoint and at the end; with 0 they compare only then.
    - `terminate_on_nan`: stop before a step whose loss or gradients are not finite changes the
      model, and before a checkpoint whose state is not finite.

    Errors: InvalidArgument (names the field).
    """

    program_saves: ClassVar[bool] = False  # checkpoints are the program's alone

    plan: str = ""
    checkpoint_directory: Union[str, os.PathLike[str], None] = None
    checkpoint_every: int = 0
    checkpoint_keep: int = 3
    call_seconds: float = 300.0
    meeting_seconds: Optional[float] = None
    state_seconds: float = 600.0
    compare_every: int = 100
    terminate_on_nan: bool = True

    def __post_init__(self) -> None:
        text("plan", self.plan)
        if self.checkpoint_directory is not None:
            folder("checkpoint_directory", self.checkpoint_directory)
        whole_number("checkpoint_every", self.checkpoint_every, least=0)
        whole_number("checkpoint_keep", self.checkpoint_keep, least=1)
        seconds("call_seconds", self.call_seconds)
        if self.meeting_seconds is not None:
            seconds("meeting_seconds", self.meeting_seconds)
        seconds("state_seconds", self.state_seconds)
        whole_number("compare_every", self.compare_every, least=0)
        truth("terminate_on_nan", self.terminate_on_nan)

    def long_seconds(self) -> float:
        """The time limit of waits in which rank 0 may read or write a checkpoint."""
        return max(self.call_seconds, self.state_seconds)

    def checkpoint_folder(self) -> Union[str, os.PathLike[str], None]:
        """The folder for checkpoints; None: nothing is saved. Errors: InvalidArgument
        (LOCKSTEP_CHECKPOINT_DIR is not the path of a folder)."""
        variable = os.environ.get("LOCKSTEP_CHECKPOINT_DIR")
        if self.checkpoint_directory or not variable:
            return self.checkpoint_directory
        return folder("LOCKSTEP_CHECKPOINT_DIR", variable)
