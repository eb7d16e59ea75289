"""Lockstep for Python: your program's processes join a rendezvous, reduce and broadcast together.
If a process is lost, the others keep running with their memory and join a new rendezvous.

`lockstep.numpy` and `lockstep.jax` work on arrays. `lockstep.torch` trains models.
`lockstep.keras` reports progress. `lockstep.tensorflow` returns the current TF_CONFIG.
`lockstep.horovod` runs programs that were written for Horovod. See docs/reference/python.md.
"""

from lockstep.errors import (
    Diverged,
    Ended,
    Finished,
    Forked,
    Inexact,
    InvalidArgument,
    LockstepError,
    MeetAgain,
    Mismatch,
    NoJob,
    NotSaved,
    Status,
    Stopped,
    StoppedUnsaved,
    Superseded,
    TakenOver,
    run,
)
from lockstep.library import DataType, Leave, Op, Phase, version
from lockstep.reporting import Reporter
from lockstep.session import Meeting, Member, Pending, Progress, Session

__all__ = [
    "DataType",
    "Diverged",
    "Ended",
    "Finished",
    "Forked",
    "Inexact",
    "InvalidArgument",
    "Leave",
    "LockstepError",
    "MeetAgain",
    "Meeting",
    "Member",
    "Mismatch",
    "NoJob",
    "NotSaved",
    "Op",
    "Pending",
    "Phase",
    "Progress",
    "Reporter",
    "Session",
    "Status",
    "Stopped",
    "StoppedUnsaved",
    "Superseded",
    "TakenOver",
    "run",
    "version",
]
