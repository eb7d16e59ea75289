"""What a step that was lost leaves behind in a model, by the way the model is spread over ranks."""

from __future__ import annotations

import gc
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from lockstep.errors import InvalidArgument


class Plain:
    """One whose gradients the program sums by calls of its own."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model

    @property
    def bare(self) -> torch.nn.Module:
        """The program's own, whose parameters have the names of checkpoints."""
        return self.model

    def settle(self) -> None:
        """At the end of a step's backward pass: all that ranks hold alike is alike, or the
        meeting's groups have failed. Collective."""

    def forget_step(self) -> None:
        """After a step that was lost: the model is as between two steps. Calls no other rank."""

    def renew(self) -> None:
        """Once all ranks hold the same state: the next step makes the same calls on all of them,
        whatever steps each has made before. Collective."""


class Ddp(Plain):
    """DistributedDataParallel."""

    model: Any  # DistributedDataParallel, whose inner parts torch gives no types

    def __init__(self, model: DistributedDataParallel) -> None:
        super().__init__(model)
        if model.static_graph:
            raise InvalidArgument(
                "model: DistributedDataParallel with static_graph=True found, expected False: its "
                "first step makes other collective calls than later steps, so a replacement would "
                "not match the other ranks")
        if getattr(model, "mixed_precision", None) is not None:
            raise InvalidArgument(
                "model: DistributedDataParallel with mixed_precision found, expected None: use "
                "torch.autocast")
        self._check_hooks()

    @property
    def bare(self) -> torch.nn.Module:
        module: torch.nn.Module = self.model.module
        return module

    def _check_hooks(self) -> None:
        if self.model._comm_hooks or self.model._get_ddp_logging_data().get("comm_hook"):
            raise InvalidArgument(
                "model: DistributedDataParallel with a communication hook found, expected none: "
                "the state of the hook may be wrong after a step in which a rank was lost")

    def settle(self) -> None:
        """Rank 0's buffers become those of all, which the next forward pass would do: a rank that
        is lost meanwhile has held nothing of its own."""
        ddp = self.model
        buffers = [one for one in ddp.modules_buffers] if ddp.will_sync_module_buffers() else []
        if buffers:
            ddp._distributed_broadcast_coalesced(buffers, ddp.broadcast_bucket_size, 0)

    def renew(self) -> None:
        """A new reducer: the old one has sorted its buckets by the first backward pass that this
        rank has seen, and knows the parameters that were trained when it was made. Of another rank
        it would add up other gradients."""
        self._check_hooks()
        ddp = self.model
        parameters, expect_sparse = ddp._build_params_for_reducer()
        ddp._remove_autograd_hooks()
        ddp._has_rebuilt_buckets = False
        names = ddp._build_debug_param_to_name_mapping(parameters)
        ddp._ddp_init_helper(parameters, expect_sparse, names, ddp.static_graph)


def plain_or_ddp(model: Any) -> Plain:
    """Errors: InvalidArgument (a model that cannot go on after a step that was lost)."""
    if isinstance(model, DistributedDataParallel):
        return Ddp(model)
    if not isinstance(model, torch.nn.Module):
        return Plain(model)  # the Job says what is wrong with it
    for name, module in model.named_modules():
        _check_module(name or "the model itself", module)
    if _is_wrapped(model):
        gc.collect()  # one that nobody has any more may be in a cycle
    if _is_wrapped(model):
        raise InvalidArgument(
            f"model: {type(model).__name__} found, whose parameters a DistributedDataParallel "
            "trains, expected the DistributedDataParallel itself: otherwise the Job cannot "
            "prepare it for a replacement of a lost rank")
    return Plain(model)


def _is_wrapped(model: torch.nn.Module) -> bool:
    """Whether there is a DistributedDataParallel of a part of it. Cost: a walk over all objects of
    Python, tens of milliseconds."""
    own = {id(one) for one in model.parameters()}
    modules = [getattr(one, "module", None) for one in gc.get_objects()
               if issubclass(type(one), DistributedDataParallel)]
    return any(id(parameter) in own for module in modules if module is not None
               for parameter in module.parameters())


def _check_module(name: str, module: torch.nn.Module) -> None:
    kinds = {one.__name__ for one in type(module).__mro__}
    if "FullyShardedDataParallel" in kinds:
        raise InvalidArgument(
            f"model: FullyShardedDataParallel (FSDP1) found at {name}, expected fully_shard, "
            "DistributedDataParallel or a plain module: FSDP1 cannot discard a step in which a "
            "rank was lost. To keep FSDP1, do not import lockstep.torch.groups: the whole gang "
            "then restarts after a loss, and continues from the program's checkpoint")
    if "FSDPModule" in kinds:
        raise InvalidArgument(
            f"model: fully_shard found at {name}, expected it on the whole model as well: only the "
            "root module can discard a step in which a rank was lost")
    if isinstance(module, DistributedDataParallel):
        raise InvalidArgument(
            f"model: DistributedDataParallel found at {name}, expected it around the whole model")


def check_optimizer(optimizer: Any) -> None:
    """Errors: InvalidArgument (its step calls the groups, so that a loss could leave it half
    done)."""
    if type(optimizer).__name__ == "ZeroRedundancyOptimizer":
        raise InvalidArgument(
            "optimizer: ZeroRedundancyOptimizer found, expected an optimizer whose step "
            "communicates with no other rank, such as Adam or SGD: if a rank is lost during the "
            "step, the step cannot be undone")


def synchronize() -> None:
    """Waits until the devices have done what was begun: what a call has left is known then."""
    cuda: Any = torch.cuda
    if cuda.is_available() and cuda.is_initialized():
        cuda.synchronize()


def is_group_initialized() -> bool:
    """Whether there is a group of all ranks."""
    return dist.GroupMember.WORLD is not None
