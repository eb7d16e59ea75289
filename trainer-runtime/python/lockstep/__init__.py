"""Lockstep for Python: programs of your own whose processes meet, reduce and broadcast together.
After one of them was lost they meet again, and the others keep their process and their memory.

`lockstep.numpy` and `lockstep.jax` work on arrays, `lockstep.torch` trains models, `lockstep.keras`
reports, `lockstep.tensorflow` asks for TF_CONFIG of now, `lockstep.horovod` runs programs for
Horovod. docs/reference/python.md tells more.
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
