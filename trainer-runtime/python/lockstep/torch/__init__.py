"""Training with torch that survives the loss of a process: `Job`, `Sampler`, and sessions on
tensors."""

from lockstep.torch.holdings import Stateful
from lockstep.torch.job import Job
from lockstep.torch.options import JobOptions
from lockstep.torch.sampler import Sampler, Totals
from lockstep.torch.session import Session, open

__all__ = ["Job", "JobOptions", "Sampler", "Session", "Stateful", "Totals", "open"]
