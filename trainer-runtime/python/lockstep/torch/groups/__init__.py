"""Recovery that keeps torch's own groups, NCCL's and gloo's: import this module before
`torch.distributed.init_process_group`, and train by `Job`."""

from lockstep.torch.groups import install

install.install()

from lockstep.torch.groups.job import Job  # noqa: E402
from lockstep.torch.groups.steps import Steps  # noqa: E402

__all__ = ["Job", "Steps"]
