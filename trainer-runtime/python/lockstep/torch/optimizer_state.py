"""A saved optimizer's state, put to the parameters and settings that a program has now."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

import torch

from lockstep.errors import Mismatch, Status

Names = Sequence[Sequence[str]]  # of the parameters, by group, in the optimizer's order

# What schedulers change as they go, and the setting that tells what the program has asked for.
_SCHEDULED = {"lr": "initial_lr", "momentum": "max_momentum", "betas": "max_momentum"}


def names_by_group(optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.Tensor]
                   ) -> list[list[str]]:
    """`parameters`: all that the optimizer has, by name."""
    names = {id(one): name for name, one in parameters.items()}
    return [[names[id(one)] for one in group["params"]] for group in optimizer.param_groups]


def put_by_name(saved: dict[str, Any], saved_names: Names, names: Names) -> dict[str, Any]:
    """A state_dict whose parameters were in the order of `saved_names`, in that of `names`. Errors:
    Mismatch (a group has other parameters; names the first)."""
    if saved_names == names:
        return saved
    for index in range(max(len(saved_names), len(names))):
        own = set(names[index]) if index < len(names) else set()
        of_file = set(saved_names[index]) if index < len(saved_names) else set()
        for one in sorted(own ^ of_file):
            found, expected = ("is", "is not") if one in own else ("is not", "is")
            raise Mismatch(
                f"optimizer: {one} {found} in group {index}, but in the checkpoint it {expected} "
                "in this group: give the optimizer the same parameters in the same groups",
                Status.MISMATCH)
    places = {name: place for place, name in enumerate(name for group in saved_names
                                                       for name in group)}
    order = [places[name] for group in names for name in group]
    ids = [one for group in saved["param_groups"] for one in group["params"]]
    state = {place: saved["state"][ids[old]] for place, old in enumerate(order)
             if ids[old] in saved["state"]}
    state.update((key, one) for key, one in saved["state"].items() if key not in ids)
    groups, begin = [], 0
    for group in saved["param_groups"]:
        end = begin + len(group["params"])
        groups.append({**group, "params": list(range(begin, end))})
        begin = end
    return {**saved, "state": state, "param_groups": groups}


def kept_settings(saved: Sequence[Mapping[str, Any]], own: Sequence[Mapping[str, Any]]
                  ) -> Optional[str]:
    """What of the groups `saved` is kept though the program's `own` say otherwise, as a sentence;
    None: nothing. What a scheduler has changed as it went is no difference."""
    found = []
    for index, (kept, asked) in enumerate(zip(saved, own)):
        words = [f"{name} {_plain(kept[name])} of the checkpoint is kept, although the program "
                 f"sets {_plain(one)}" for name, one in asked.items()
                 if name != "params" and name in kept and not _is_scheduled(name, kept, asked)
                 and _plain(kept[name]) != _plain(one)]
        if words:
            found.append(f"optimizer group {index}: {', '.join(words)}")
    return "; ".join(found) or None


def _is_scheduled(name: str, kept: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    tells = _SCHEDULED.get(name)
    return tells is not None and tells in kept and tells in asked


def _plain(value: Any) -> Any:
    """JSON and torch have numbers and sequences in several kinds."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
