"""How a training loop goes about it."""

from __future__ import annotations

import dataclasses
import os
from typing import ClassVar, Optional, Union

from lockstep.arguments import folder, seconds, text, truth, whole_number


@dataclasses.dataclass(frozen=True)
class JobOptions:
    """How a job goes about it.

    `call_seconds` bounds each wait for other ranks within a step; a lost or frozen one is noticed
    far sooner, so it is for ranks that live and do not come. `meeting_seconds` bounds a meeting, by
    default by the job's `rendezvousTimeoutSeconds`. `state_seconds` bounds the waits in which rank
    0 may read or write a checkpoint. `checkpoint_every`: steps, 0 for none but that at the end or a
    stop; `checkpoint_directory`: by default LOCKSTEP_CHECKPOINT_DIR, and nothing is saved where
    that is not set; `checkpoint_keep` of them stay. Each `compare_every` steps, before each
    checkpoint and at the end, all ranks compare hashes of what they hold (0: not in between).
    `terminate_on_nan`: stop at the first step whose loss or gradients are not finite, before the
    model is changed by it, and before a checkpoint whose state is not.

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
        """Where others may wait for rank 0 to read or write a checkpoint."""
        return max(self.call_seconds, self.state_seconds)

    def checkpoint_folder(self) -> Union[str, os.PathLike[str], None]:
        """Where a job saves, if it does. Errors: InvalidArgument (the environment names no
        folder)."""
        variable = os.environ.get("LOCKSTEP_CHECKPOINT_DIR")
        if self.checkpoint_directory or not variable:
            return self.checkpoint_directory
        return folder("LOCKSTEP_CHECKPOINT_DIR", variable)
