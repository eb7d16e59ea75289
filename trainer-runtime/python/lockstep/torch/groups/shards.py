"""Models whose parameters are spread over ranks by fully_shard: FSDP2, and HSDP, where another rank
holds the same shard."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Replicate

from lockstep.errors import Ended, InvalidArgument, MeetAgain, Status
from lockstep.session import Member
from lockstep.torch.groups.models import Plain, plain_or_ddp
from lockstep.torch.holdings import Holdings, has_no_nan, is_finite
from lockstep.torch.options import JobOptions
from lockstep.torch.tensor_hash import hash64


class ShardLost(Ended):
    """Nobody holds the shard of a rank that was lost: the gang starts anew from the program's own
    checkpoint."""

    exit_code = MeetAgain.exit_code


def shard_lost(rank: int, step: int, why: str) -> ShardLost:
    """That of `rank`, when ranks had taken `step` steps."""
    return ShardLost(f"the shard of rank {rank} after step {step} is lost: {why}; the gang "
                     "restarts from the program's checkpoint", Status.LOST_PEER)


class Sharded(Plain):
    """A model that fully_shard was applied to."""

    def __init__(self, model: Any, size: int) -> None:
        """`size`: ranks of the job. Errors: InvalidArgument (a part is not sharded, or over other
        ranks than the rest)."""
        super().__init__(model)
        parameters = dict(model.named_parameters())
        loose = [name for name, one in parameters.items() if not isinstance(one, DTensor)]
        if loose:
            raise InvalidArgument(
                f"model: {loose[0]} found outside of fully_shard, expected all parameters in it: "
                "apply fully_shard to the whole model, without ignored_params")
        meshes = {name: one.device_mesh for name, one in parameters.items()}
        first = next(iter(meshes.values()))
        other = next((name for name, one in meshes.items() if one != first), None)
        if other is not None or first.size() != size:
            raise InvalidArgument(
                f"model: {other or 'parameters'} on the mesh {meshes.get(other or '', first)} "
                f"found, expected all parameters on one mesh of all {size} ranks")
        self.size = size
        self._ranks = first.mesh
        placements = [one.placements for one in parameters.values()]
        self._is_replica = [all(isinstance(one[dim], Replicate) for one in placements)
                            for dim in range(first.ndim)]

    def twins(self, rank: int) -> list[int]:
        """The ranks that hold the same shard, this one left out."""
        [place] = (self._ranks == rank).nonzero().tolist()
        index = tuple(slice(None) if is_replica else coordinate
                      for coordinate, is_replica in zip(place, self._is_replica))
        same: list[int] = self._ranks[index].flatten().tolist()
        return [one for one in same if one != rank]

    def donors(self, members: tuple[Member, ...], step: int) -> dict[int, int]:
        """Who hands its shard to whom: by the ranks that have no state, after `step` steps.
        Errors: ShardLost."""
        found = {}
        for member in members:
            if member.has_state:
                continue
            twins = [one for one in self.twins(member.rank) if members[one].has_state]
            if not twins:
                others = self.twins(member.rank)
                why = (f"ranks {others}, which held the same shard, are lost as well" if others else
                       "no other rank holds this shard; on a mesh with a dimension of replicas "
                       "(HSDP), another rank does, and with copy_every of the Job, another pod "
                       "has a copy")
                raise shard_lost(member.rank, step, why)
            found[member.rank] = twins[0]
        return found

    def forget_step(self) -> None:
        """Lets go of whatever it has begun."""
        model: Any = self.model
        if model._get_fsdp_state()._is_root is None:
            return  # it has never run, as a replacement's has not
        try:
            model.reset_iter_state()
        except Exception:
            # It waits for a gathering that has failed: let go of it, and once more.
            for module in model.modules():
                if isinstance(module, FSDPModule):
                    for group in module._get_fsdp_state()._fsdp_param_groups:
                        group._all_gather_result = None
            model.reset_iter_state()


@dataclasses.dataclass(frozen=True)
class ProgramSaves(JobOptions):
    """Of a Job that saves nothing: a checkpoint of shards is the program's, as that of a loop which
    is not the Job's."""

    program_saves = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.checkpoint_every > 0 or self.checkpoint_directory is not None:
            raise InvalidArgument(
                "options: checkpoint_every and checkpoint_directory found, expected neither: the "
                "program saves shards with torch.distributed.checkpoint, and a trainer saves its "
                "own checkpoints")

    def checkpoint_folder(self) -> None:
        return None

    @classmethod
    def like(cls, options: JobOptions) -> ProgramSaves:
        """The same but for that. Errors: InvalidArgument."""
        return cls(**{one.name: getattr(options, one.name) for one in dataclasses.fields(options)})


class ShardHoldings(Holdings):
    """What this rank holds. Tensors are its own shards, of which ranks hold different ones."""

    def shard(self) -> dict[str, Any]:
        """Of this rank: what a twin needs."""
        state = self.optimizer.state
        kept = {name: state[one] for name, one in self.parameters().items() if one in state}
        return {
            "parameters": {name: local(one) for name, one in self.parameters().items()},
            "buffers": {name: one for each in self.buffers() for name, one in each.items()},
            "optimizer": {name: {key: local(value) for key, value in each.items()}
                          for name, each in kept.items()},
            "layouts": {name: {key: _layout(value) for key, value in each.items()
                               if isinstance(value, torch.Tensor)}
                        for name, each in kept.items()},
        }

    def load_shard(self, found: dict[str, Any]) -> None:
        """Takes over that of a twin, or an older one of this rank."""
        buffers = {name: one for each in self.buffers() for name, one in each.items()}
        with torch.no_grad():
            for name, one in self.parameters().items():
                local(one).copy_(found["parameters"][name])
                self.optimizer.state.pop(one, None)
                if name in found["optimizer"]:
                    layouts = found["layouts"][name]
                    self.optimizer.state[one] = {
                        key: _placed(one, value, layouts[key]) if key in layouts else value
                        for key, value in found["optimizer"][name].items()}
            for name, buffer in buffers.items():
                buffer.copy_(found["buffers"][name])

    def common(self) -> dict[str, Any]:
        """What is the same on all ranks."""
        groups = [{key: value for key, value in group.items() if key != "params"}
                  for group in self.optimizer.param_groups]
        return {
            "groups": groups, "scaler": self._scaler_state(),
            "extra": {name: one.state_dict() for name, one in self.extra.items()},
            "trained": [name for name, one in self.parameters().items() if one.requires_grad],
        }

    def load_common(self, state: dict[str, Any]) -> None:
        """Takes it over."""
        for group, found in zip(self.optimizer.param_groups, state["groups"]):
            group.update(found)
        for name, one in self.extra.items():
            one.load_state_dict(state["extra"][name])
        if self.scaler is not None and state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        for name, parameter in self.parameters().items():
            parameter.requires_grad_(name in state["trained"])

    def extra_hashes(self) -> dict[str, str]:
        """Of the tensors of `extra`, by name."""
        return {name: f"{hash64(one):016x}" for flat in self._extra_flats().values()
                for name, one in flat.tensors.items()}

    def trained_hashes(self) -> dict[str, str]:
        return {}  # ranks hold different shards

    def parameter_hashes(self) -> dict[str, str]:
        return {}

    def _compared(self) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
        return {}, {"optimizer, scaler and extra": repr(self.common()["groups"])}

    def first_not_finite(self) -> Optional[str]:
        """Looks at what this rank holds, and asks no other."""
        found = self.shard()
        names = {**found["parameters"],
                 **{f"optimizer: {key} of {name}": value
                    for name, one in found["optimizer"].items() for key, value in one.items()
                    if isinstance(value, torch.Tensor)}}
        bad = next((name for name, one in names.items() if not is_finite(one)), None)
        return bad or next(
            (name for name, one in found["buffers"].items() if not has_no_nan(one)), None)


def adapter_of(model: Any) -> Plain:
    """Errors: InvalidArgument (a model that cannot go on after a step that was lost)."""
    if isinstance(model, FSDPModule):
        return Sharded(model, dist.get_world_size())
    return plain_or_ddp(model)


def local(value: Any) -> Any:
    """This rank's part of a tensor, which shares its memory."""
    return value.to_local().detach() if isinstance(value, DTensor) else value


def _layout(value: torch.Tensor) -> dict[str, Any]:
    """Of a tensor of the optimizer: what its local part does not tell."""
    is_on_host = value.device.type == "cpu"
    if not isinstance(value, DTensor):
        return {"is_on_host": is_on_host}
    return {"is_on_host": is_on_host, "shape": list(value.shape), "stride": list(value.stride())}


def _placed(parameter: Any, value: torch.Tensor, layout: dict[str, Any]) -> torch.Tensor:
    """`value` of a twin, as this rank's optimizer needs it beside `parameter`."""
    if not layout["is_on_host"]:
        value = value.to(local(parameter).device)
    if "shape" not in layout:
        return value
    # Without its shape, a part of another length than those of other ranks would be taken for one
    # of as many as there are ranks.
    return DTensor.from_local(
        value, parameter.device_mesh, parameter.placements, shape=torch.Size(layout["shape"]),
        stride=tuple(layout["stride"]))
