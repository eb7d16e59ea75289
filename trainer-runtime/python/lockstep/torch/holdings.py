"""What all ranks of a job hold alike: the model, its optimizer, and what travels with them."""

from __future__ import annotations

import gc
import hashlib
import inspect
import json
import math
import sys
from typing import Any, Mapping, Optional, Protocol

import torch

from lockstep.errors import InvalidArgument, Mismatch, Status
from lockstep.torch.agreement import differences
from lockstep.torch.optimizer_state import kept_settings, names_by_group, put_by_name
from lockstep.torch.sampler import Sampler
from lockstep.torch.state import FlatState, Json, flatten
from lockstep.torch.tensor_hash import hash64, hash_all


class Stateful(Protocol):
    """An object whose state belongs to the model: a scheduler, or your own counters."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state: Any) -> Any: ...


# torch.amp has one of its own since 2.3.
_SCALERS: tuple[type, ...] = tuple({
    scaler for module in (torch.cuda.amp, getattr(torch, "amp", None))
    if (scaler := getattr(module, "GradScaler", None)) is not None})


def check_parts(model: Any, optimizer: Any, extra: Mapping[str, Any], scaler: Any) -> None:
    """Whether a job can be made of these. Errors: InvalidArgument (names the argument)."""
    if not isinstance(model, torch.nn.Module):
        raise InvalidArgument(
            f"model: {type(model).__name__} found, expected one torch.nn.Module; put several into "
            "a torch.nn.ModuleDict")
    if not hasattr(optimizer, "param_groups") or not callable(getattr(optimizer, "step", None)):
        raise InvalidArgument(
            f"optimizer: {type(optimizer).__name__} found, expected one torch.optim.Optimizer; "
            "give one optimizer several parameter groups")
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise InvalidArgument(
            f"optimizer: {type(optimizer).__name__} found, whose step calls the model several "
            "times; expected an optimizer that steps without a closure, as SGD and Adam do")
    stateful = ("state_dict", "load_state_dict")
    for name, one in extra.items():
        if issubclass(type(one), _SCALERS):
            raise InvalidArgument(
                f"extra: {name} is a GradScaler: pass it as Job(scaler=...), which unscales the "
                "gradients and skips the same steps on all ranks")
        if not all(callable(getattr(one, word, None)) for word in stateful):
            raise InvalidArgument(
                f"extra: {name}: {type(one).__name__} found, expected something that has "
                "state_dict and load_state_dict")
        flatten({"extra": {name: one.state_dict()}})  # else it fails when a rank is lost
    needed = ("unscale_", "step", "update", *stateful)
    if scaler is not None and not all(hasattr(scaler, name) for name in needed):
        raise InvalidArgument(
            f"scaler: {type(scaler).__name__} found, expected a torch.cuda.amp.GradScaler")


class Holdings:
    """The parts of a job by name. Parameters and buffers are looked up anew in each call, as a
    program may unfreeze, add or replace some meanwhile. Thread: one."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        extra: Optional[Mapping[str, Stateful]] = None,
        scaler: Any = None,
    ) -> None:
        """Errors: those of `check_parts`."""
        check_parts(model, optimizer, extra or {}, scaler)
        self.model = model
        self.optimizer = optimizer
        self.extra = dict(extra or {})
        self.scaler = scaler
        buffers = self.buffers()[0]
        self._masks = {name for name, one in buffers.items() if not is_finite(one)}
        self._unset = {name for name in self._masks if not has_no_nan(buffers[name])}

    def parameters(self) -> dict[str, torch.Tensor]:
        """Of the model, frozen or not, and those that the optimizer alone has."""
        named: dict[str, torch.Tensor] = {
            f"model: {name}": one for name, one in self.model.named_parameters()}
        return {**named, **self._not_among(named)}

    def loose(self) -> dict[str, torch.Tensor]:
        """The parameters that the optimizer alone has."""
        return self._not_among(dict(self.model.named_parameters()))

    def _not_among(self, named: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        in_model = {id(one) for one in named.values()}
        return {
            f"optimizer: group {group_index}, parameter {index}": one
            for group_index, group in enumerate(self.optimizer.param_groups)
            for index, one in enumerate(group["params"])
            if id(one) not in in_model
        }

    def buffers(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Those of the model's state, which are equal on all ranks, and those that are not
        persistent, of which each rank has its own."""
        state: dict[str, torch.Tensor] = {}
        own: dict[str, torch.Tensor] = {}
        seen: set[int] = set()
        for module_name, module in self.model.named_modules():
            for name, one in module._buffers.items():
                if one is None or id(one) in seen:
                    continue
                seen.add(id(one))
                is_own = name in module._non_persistent_buffers_set
                (own if is_own else state)[f"model: {module_name}.{name}"] = one
        return state, own

    def has_unknown_scaler(self) -> bool:
        """Whether some other GradScaler has scaled a loss in this process. Cost: a walk over all
        objects of Python, tens of milliseconds."""
        return any(
            issubclass(type(one), _SCALERS) and one is not self.scaler and one.is_enabled()
            and getattr(one, "_scale", None) is not None for one in gc.get_objects())

    def terms(self) -> dict[str, str]:
        """What ranks have to agree on before one takes over another's state."""
        groups = self.optimizer.param_groups
        names = names_by_group(self.optimizer, self.parameters())
        return {
            **_shapes_of(self.model.state_dict(), self.loose()),
            "optimizer:": type(self.optimizer).__name__,
            "optimizer: parameters by group": str([len(group["params"]) for group in groups]),
            **{f"optimizer: group {group}, parameter {index}:": name
               for group, each in enumerate(names) for index, name in enumerate(each)},
            "extra: keys": str(sorted(self.extra)),
            "scaler:": "none" if self.scaler is None else "some",
        }

    def hashes(self) -> dict[str, str]:
        """Of parameters, persistent buffers, the optimizer's and scaler's state, and `extra`, by
        name."""
        tensors, values = self._compared()
        return {**{name: f"{hash64(one):016x}" for name, one in tensors.items()}, **values}

    def digest(self) -> str:
        """One of all that `hashes` has, which is quicker to come by."""
        tensors, values = self._compared()
        named = dict(sorted(tensors.items()))
        marks = [[name, _shape_of(one)] for name, one in named.items()]
        parts = [marks, sorted(values.items()), hash_all(named.values())]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _compared(self) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
        """Tensors, and hashes of plain values, by name."""
        flat = flatten({
            "model": dict(self.model.state_dict()), "loose": self.loose(),
            "optimizer": self.optimizer.state_dict(), "scaler": self._scaler_state()})
        tensors = dict(flat.tensors)
        values = {"the settings of optimizer and scaler": _hash_of_values(flat.tree)}
        for key, one in self._extra_flats().items():
            values[f"extra/{key}"] = _hash_of_values(one.tree)
            tensors.update(one.tensors)
        return tensors, values

    def trained_hashes(self) -> dict[str, str]:
        """Those of parameters, persistent buffers and the optimizer's tensors for each of them."""
        flat = flatten({
            "model": dict(self.model.state_dict()), "loose": self.loose(),
            "optimizer": {"state": self.optimizer.state_dict()["state"]}})
        return {name: f"{hash64(one):016x}" for name, one in flat.tensors.items()}

    def parameter_hashes(self) -> dict[str, str]:
        """Of these alone, with the names that `parameters` has."""
        return {name: f"{hash64(one):016x}" for name, one in self.parameters().items()}

    def first_not_finite(self) -> Optional[str]:
        """The name of a tensor of the state with numbers that are not finite. A buffer that had
        infinities or NaN from the beginning, as a mask has, may keep them; so may `extra` keep
        infinities."""
        for name, one in self.parameters().items():
            if not is_finite(one):
                return name
        for name, one in self.buffers()[0].items():
            is_sound = has_no_nan if name in self._masks else is_finite
            if name not in self._unset and not is_sound(one):
                return name
        names = {id(one): name for name, one in self.parameters().items()}
        for parameter, values in self.optimizer.state.items():
            for key, one in values.items() if isinstance(values, dict) else ():
                if isinstance(one, torch.Tensor) and not is_finite(one):
                    return f"optimizer: {key} of {names.get(id(parameter), 'a parameter')}"
        return next((name for flat in self._extra_flats().values()
                     for name, one in flat.tensors.items() if not has_no_nan(one)), None)

    def _extra_flats(self) -> dict[str, FlatState]:
        """By key. Errors: InvalidArgument (names what cannot be taken apart)."""
        return {
            key: flatten({"extra": {key: one.state_dict()}}) for key, one in self.extra.items()}

    def state(self) -> dict[str, Any]:
        """All of it, for another rank or a file."""
        return {
            "model": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "optimized": names_by_group(self.optimizer, self.parameters()),
            "extra": {name: one.state_dict() for name, one in self.extra.items()},
            "loose": {name: one.detach() for name, one in self.loose().items()},
            "scaler": self._scaler_state(),
            "trained": [name for name, one in self.parameters().items() if one.requires_grad],
        }

    def load(self, state: dict[str, Any], is_of_file: bool) -> None:
        """Takes it over. Which parameters are frozen is the program's own choice where a file is
        gone on from. Errors: Mismatch (it is of another model, has other keys of `extra`, or other
        parameters in the optimizer's groups)."""
        if is_of_file:  # ranks have agreed on theirs
            self._check_shapes(state)
        missing = sorted(set(self.extra) - set(state["extra"]))
        if missing:
            raise Mismatch(
                f"extra: keys {sorted(self.extra)} found, expected some of "
                f"{sorted(state['extra'])}, as the checkpoint has them", Status.MISMATCH)
        dropped = sorted(set(state["extra"]) - set(self.extra))
        if state.get("scaler") and self.scaler is None:
            dropped.append("the state of the GradScaler")
        if dropped:  # of a file: ranks have agreed on theirs
            print("lockstep: the checkpoint has extra state that this program does not pass to "
                  f"the Job, so the next checkpoint will not contain it: {', '.join(dropped)}; "
                  "to keep this state, pass it to the Job", file=sys.stderr, flush=True)
        optimized = state["optimizer"]
        if "optimized" in state:  # files of before have the order alone
            names = names_by_group(self.optimizer, self.parameters())
            optimized = put_by_name(optimized, state["optimized"], names)
        kept = kept_settings(optimized["param_groups"], self.optimizer.param_groups)
        if is_of_file and kept is not None:
            print(f"lockstep: {kept}; to continue with other values, set them on all ranks after "
                  "the Job is made", file=sys.stderr, flush=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(optimized)
        for name, one in self.extra.items():
            one.load_state_dict(state["extra"][name])
        if self.scaler is not None and state.get("scaler"):
            self.scaler.load_state_dict(state["scaler"])
        with torch.no_grad():
            for name, loose in self.loose().items():
                if name in state.get("loose", {}):
                    loose.copy_(state["loose"][name])
        if not is_of_file:
            for name, parameter in self.parameters().items():
                parameter.requires_grad_(name in state["trained"])

    def fingerprint(self, plan: str, sampler: Sampler) -> dict[str, str]:
        """What must be equal in a checkpoint that is gone on from, beside the shapes of its
        tensors: values by the names that a message has for them."""
        own = {f"{name} of the Sampler": str(getattr(sampler, name))
               for name in ("sample_count", "seed", "shuffle")}
        return {"plan": plan or "none", "optimizer": type(self.optimizer).__name__, **own}

    def _check_shapes(self, state: dict[str, Any]) -> None:
        """Errors: Mismatch (the checkpoint is of another model; names tensors)."""
        loose = self.loose() if "loose" in state else {}  # files of before have none
        words = differences(_shapes_of(self.model.state_dict(), loose),
                            _shapes_of(state["model"], state.get("loose", {})))
        if words is not None:
            raise Mismatch(f"the newest checkpoint does not fit this job: {words}; to begin at "
                           "step 0, set another checkpoint_directory", Status.MISMATCH)

    def _scaler_state(self) -> dict[str, Any]:
        return {} if self.scaler is None else dict(self.scaler.state_dict())


def _hash_of_values(tree: Json) -> str:
    """That of a state without its tensors. The order in which a dict was filled does not count."""
    return hashlib.sha256(json.dumps(_sorted(tree)).encode()).hexdigest()[:16]


def _sorted(tree: Json) -> Json:
    if isinstance(tree, list):
        return [_sorted(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    [(kind, content)] = tree.items()
    if kind in ("@dict", "@counter"):
        return {kind: sorted(([key, _sorted(item)] for key, item in content),
                             key=lambda pair: repr(pair[0]))}
    return {kind: _sorted(content)}


def is_finite(tensor: torch.Tensor) -> bool:
    """A sum that is finite has no other numbers in it, and is quicker to come by."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    values = tensor.detach()
    return math.isfinite(float(values.real.sum())) and not values.is_complex() or bool(
        torch.isfinite(values).all())


def has_no_nan(tensor: torch.Tensor) -> bool:
    """Infinities it may have."""
    return is_finite(tensor) or not bool(torch.isnan(tensor.detach()).any())


def _shapes_of(
    model: Mapping[str, torch.Tensor], loose: Mapping[str, torch.Tensor]
) -> dict[str, str]:
    """Of a model's state, and of the parameters that the optimizer alone has."""
    named = {f"model: {name}": one for name, one in model.items()}
    return {name: _shape_of(one) for name, one in {**named, **loose}.items()}


def _shape_of(tensor: torch.Tensor) -> str:
    return f"{list(tensor.shape)} {tensor.dtype}"
