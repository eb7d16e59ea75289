"""Recovery that keeps torch's own process groups of NCCL and gloo. Import this module before
`torch.distributed.init_process_group`, and train with `Job`."""

from lockstep.torch.groups import install

install.install()

from lockstep.torch.groups.job import Job  # noqa: E402
from lockstep.torch.groups.steps import Steps  # noqa: E402

__all__ = ["Job", "Steps"]
