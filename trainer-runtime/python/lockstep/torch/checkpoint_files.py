"""Checkpoints as files, by liblockstep: lockstep_checkpoint_* of lockstep.h."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import sys
from typing import Any, NamedTuple, Optional, Union

import torch

from lockstep.errors import InvalidArgument, LockstepError, Status, Superseded, TakenOver, error_of
from lockstep.library import REPORT, CheckpointIO, TensorIO, load
from lockstep.torch.holdings import is_finite
from lockstep.torch.state import FlatState, dtype_name, dtype_of, unflatten

_PROGRAM = b"lockstep.torch"
# The path of the ledger in a state, and its name in the file.
_OWN_LEDGER, _LEDGER = "sampler/ledger", "lockstep/ledger"


@dataclasses.dataclass(frozen=True)
class Writer:
    """In whose name checkpoints are written: a later one of a job takes over from an earlier."""

    job_uid: str
    attempt: int
    epoch: int
    incarnation: int

    @staticmethod
    def of_environment(epoch: int, incarnation: int) -> Writer:
        """This process's, in the meeting `epoch`."""
        attempt = int(os.environ.get("LOCKSTEP_ATTEMPT", "0"))
        return Writer(os.environ.get("LOCKSTEP_JOB_UID", ""), attempt, epoch, incarnation)

    def arguments(self) -> tuple[bytes, int, int, int]:
        """As C has it."""
        return self.job_uid.encode(), self.attempt, self.epoch, self.incarnation


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a checkpoint is of."""

    step: int
    data_epoch: int
    position: int
    samples_consumed: int
    seed: int
    world_size: int
    fingerprint: dict[str, str]  # Holdings.fingerprint


class Found(NamedTuple):
    """A whole checkpoint. What a `Job` has not written has no fingerprint, or no tree."""

    step: int
    folder: str
    fingerprint: Any
    tree: Any
    tensors: dict[str, torch.Tensor]

    def state(self) -> Any:
        """What was saved."""
        return unflatten(FlatState(self.tree, self.tensors))


class CheckpointFiles:
    """A directory of checkpoints. `keep` of 0: nothing is written. Thread: one, and one beside it
    that writes."""

    def __init__(self, directory: Union[str, os.PathLike[str]], keep: int) -> None:
        self._library = load()
        self._report = REPORT(lambda sentence: report(sentence.decode(errors="replace")))
        self._handle = ctypes.c_void_p()
        self._call("open_store", os.fsencode(directory), _PROGRAM, keep, self._report,
                   ctypes.byref(self._handle))

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.lockstep_checkpoint_close_store(self._handle)

    def make(self) -> None:
        """Makes the directory, where it is not there. Errors: InvalidArgument."""
        self._call("make_directory", self._handle)

    def claim(self, writer: Writer) -> None:
        """Makes this process the one that writes. Errors: Superseded, TakenOver, OSError."""
        self._call("claim", self._handle, *writer.arguments())

    def write(self, manifest: Manifest, state: FlatState) -> None:
        """Writes a checkpoint of dense tensors in the host's memory, and removes old ones. Errors:
        those of `claim`, ValueError (the fence is damaged)."""
        named = {_LEDGER if name == _OWN_LEDGER else name: tensor
                 for name, tensor in state.tensors.items()}
        parts = (TensorIO * len(named))(*(_part_of(name, named[name]) for name in sorted(named)))
        self._call("write", self._handle, CheckpointIO(
            struct_size=ctypes.sizeof(CheckpointIO), step=manifest.step,
            data_epoch=manifest.data_epoch, position=manifest.position,
            samples_consumed=manifest.samples_consumed, seed=manifest.seed,
            world_size=manifest.world_size, is_finite=all(map(is_finite, named.values())),
            settings=json.dumps(manifest.fingerprint).encode(),
            description=json.dumps(state.tree).encode(), tensors=parts, tensor_count=len(parts)))

    def is_whole(self, step: int, writer: Optional[Writer] = None) -> bool:
        """Whether the checkpoint of `step` is there, complete, and of `writer`, if one is given."""
        found = ctypes.c_int()
        self._call("verify", self._handle, step, *(writer or Writer("", 0, 0, 0)).arguments(),
                   ctypes.byref(found))
        return found.value > (0 if writer is None else 1)

    def newest(self, below: int = (1 << 63) - 1) -> Optional[Found]:
        """The newest whose files verify, of a step below `below`; None where there is none. Others
        are told on standard error and skipped. Errors: Mismatch (one is of a later release),
        LockstepError (all are damaged; one, or the directory, cannot be read)."""
        place = ctypes.POINTER(CheckpointIO)()
        try:
            self._call("open", self._handle, below, ctypes.byref(place))
        except (OSError, ValueError) as error:
            raise LockstepError(self._sentence(), Status.SYSTEM) from error
        if not place:
            return None
        try:
            one = place.contents
            tensors = dict(map(_tensor_of, one.tensors[:one.tensor_count]))
            return Found(one.step, os.fsdecode(one.folder), json.loads(one.settings or "null"),
                         json.loads(one.description or "null"), tensors)
        finally:
            self._library.lockstep_checkpoint_close(place)

    def _call(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, f"lockstep_checkpoint_{function}")(*arguments)
        if status == Status.OK:
            return
        sentence, number = self._sentence(), self._library.lockstep_last_system_error()
        if status == Status.SUPERSEDED:
            raise Superseded(f"{sentence}: the other process saves, and you need to do nothing",
                             Status.SUPERSEDED)
        if status == Status.TAKEN_OVER:
            raise TakenOver(f"{sentence}: set another checkpoint_directory in this job",
                            Status.TAKEN_OVER)
        if status == Status.DAMAGED:
            raise ValueError(sentence)
        if status == Status.SYSTEM:
            raise OSError(number, os.strerror(number)) if number else OSError(sentence)
        raise error_of(status, sentence)

    def _sentence(self) -> str:
        sentence: bytes = self._library.lockstep_last_error()
        return sentence.decode(errors="replace")


def report(sentence: str) -> None:
    """On standard error, in the built-in trainer's words."""
    print(f"lockstep: {sentence}", file=sys.stderr, flush=True)


def _part_of(name: str, tensor: torch.Tensor) -> TensorIO:
    if "\0" in name:
        raise InvalidArgument(f"state: {name!r}: a NUL found, expected a name without one")
    shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
    return TensorIO(
        name=name.encode(), type=dtype_name(tensor.dtype).encode(), shape=shape,
        dimensions=tensor.dim(), data=tensor.data_ptr(),
        bytes=tensor.numel() * tensor.element_size())


def _tensor_of(part: TensorIO) -> tuple[str, torch.Tensor]:
    tensor = torch.empty(part.shape[:part.dimensions], dtype=dtype_of(part.type.decode()))
    ctypes.memmove(tensor.data_ptr(), part.data, part.bytes)
    name = part.name.decode()
    return (_OWN_LEDGER if name == _LEDGER else name), tensor
