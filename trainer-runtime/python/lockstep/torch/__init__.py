"""Training with torch that continues after the loss of a process: `Job`, `Sampler`, and sessions
for tensors."""

from lockstep.torch.holdings import Stateful
from lockstep.torch.job import Job
from lockstep.torch.options import JobOptions
from lockstep.torch.sampler import Sampler, Totals
from lockstep.torch.session import Session, open
from lockstep.torch.trained import Checkpoint, newest_checkpoint

__all__ = [
    "Checkpoint",
    "Job",
    "JobOptions",
    "Sampler",
    "Session",
    "Stateful",
    "Totals",
    "newest_checkpoint",
    "open",
]
