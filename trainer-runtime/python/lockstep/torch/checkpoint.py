"""A directory of checkpoints as in docs/reference/checkpoints.md, with a writer beside training."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import enum
import hashlib
import json
import os
import pathlib
import re
import secrets
import shutil
import sys
import threading
from typing import Any, Iterator, Optional, Union

import torch

from lockstep.errors import (
    InvalidArgument,
    LockstepError,
    Mismatch,
    Status,
    Superseded,
    TakenOver,
)
from lockstep.last_words import Checkpoints
from lockstep.torch.agreement import differences
from lockstep.torch.checkpoint_format import (
    LEDGER,
    OWN_LEDGER,
    check_manifest,
    decode,
    dump_hashed,
    encode,
    read_hashed,
    read_regular,
    words_of,
)
from lockstep.torch.holdings import is_finite
from lockstep.torch.lasting_files import exchange, locked, sync, write_lasting
from lockstep.torch.not_written import NotWritten
from lockstep.torch.state import FlatState, unflatten

_FORMAT_VERSION = 2
_TENSORS = "tensors.safetensors"
_MANIFEST = "manifest.json"
_FENCE = "fence.json"
_STEP_NAME = re.compile(r"step-(\d+)")


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

    @staticmethod
    def of_fields(document: dict[str, Any]) -> Writer:
        """Of a file. Errors: ValueError (a field is not there)."""
        names = ("jobUid", "attempt", "epoch", "incarnation")
        if not all(name in document for name in names):
            raise ValueError(f"fields {sorted(document)} found, expected {', '.join(names)}")
        return Writer(*(document[name] for name in names))

    def __str__(self) -> str:
        return (f"attempt {self.attempt}, epoch {self.epoch}, incarnation {self.incarnation} of "
                f"job {self.job_uid}")

    def order(self) -> tuple[int, int, int]:
        """By which writers of one job follow each other: trainer-runtime/checkpoint/fence.cc."""
        return self.attempt, self.incarnation, self.epoch

    def fields(self) -> dict[str, Any]:
        """As files have it."""
        return {"jobUid": self.job_uid, "attempt": self.attempt, "epoch": self.epoch,
                "incarnation": self.incarnation}


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


class _Soundness(enum.Enum):
    """What a look at a checkpoint says, without hashing its tensors."""

    FINITE = enum.auto()
    NOT_FINITE = enum.auto()
    _DAMAGED = enum.auto()
    UNREADABLE = enum.auto()  # it may be whole


class _LaterFormat(ValueError):
    """Of a release that this one does not know."""


class Removed(LockstepError):
    """Those that were there were removed before they could be read."""


class _CameLater(Exception):
    """Another job's, above this one's, which began from the newest that could be used."""


# What shows that a checkpoint is not whole, rather than that nobody can say.
_DAMAGE = (ValueError, KeyError, TypeError, FileNotFoundError, NotADirectoryError)


def tell_skipped(folder: pathlib.Path, why: str) -> None:
    """On standard error, in the built-in trainer's words."""
    print(f"lockstep: checkpoint skipped: {folder}: {why}", file=sys.stderr, flush=True)


class CheckpointStore:
    """Complete checkpoints appear by a rename; `keep` of them stay. Thread: one calling thread; the
    writer is inside, and holds copies."""

    def __init__(self, directory: Union[str, os.PathLike[str]], keep: int) -> None:
        self._directory = pathlib.Path(directory)
        self._keep = max(1, keep)
        self._writer: Optional[Writer] = None
        self._thread: Optional[threading.Thread] = None
        self._problem: Optional[Exception] = None
        self._newest: Optional[int] = None  # the step that was to be saved last
        self._published: Optional[int] = None  # the step that this process has saved last
        self.counts = Checkpoints(written=0, failed=0)  # once a `flush` is over

    def make(self) -> None:
        """Makes the directory, where it is not there. Errors: InvalidArgument."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(
                f"checkpoint_directory: {self._directory} cannot be created: {error}") from None

    def claim(self, writer: Writer) -> None:
        """Makes this process the one that writes. Errors: Superseded (a newer writer of the job
        holds the directory), TakenOver (another job does), NotWritten."""
        self.flush()
        try:
            self._take(writer)
        except OSError as error:
            raise NotWritten(error, self._directory) from None
        self._writer = writer

    def _take(self, writer: Writer) -> None:
        with locked(self._directory):
            holder, shut_out = self._read_fence_or_none()
            if holder is not None and holder.job_uid != writer.job_uid:
                if self._writer is not None or writer.job_uid in shut_out:
                    raise self._taken_over_by(holder)
                shut_out.append(holder.job_uid)
            elif holder is not None:
                self._check_holder(holder, writer)
            document = writer.fields()
            if shut_out:
                document["shutOut"] = shut_out[-256:]
            self._write_atomically(_FENCE, dump_hashed(document))
            # Whoever else writes in the same name, as of a broken gang, is not in the way of it.
            for left in self._directory.glob(".tmp-*") if holder != writer else ():
                shutil.rmtree(left, ignore_errors=True)

    def save_async(self, state: FlatState, manifest: Manifest) -> None:
        """Copies the state and returns; the one before is waited for. Where no thread can be
        started, it returns once all is written. A step that this process has saved already is not
        written again: its state is the same. Precondition: `claim`.

        Errors: those of `flush`, of the one before.
        """
        self.flush()
        if manifest.step == self._published and self._is_whole(manifest.step):
            return
        copied = {
            LEDGER if name == OWN_LEDGER else name: tensor.detach().cpu().clone().contiguous()
            for name, tensor in state.tensors.items()
        }
        tree = json.dumps(state.tree)
        self._newest = manifest.step
        thread = threading.Thread(
            target=self._save, args=(copied, tree, manifest), name="lockstep-checkpoint")
        try:
            thread.start()
        except RuntimeError:  # as at the interpreter's exit, from Python 3.12 on
            self._save(copied, tree, manifest)
        else:
            self._thread = thread

    def flush(self) -> Optional[Exception]:
        """Waits until all is written. What kept the newest from that is returned and told on
        standard error, as a full disk (NotWritten); the next save tries again. Errors: Superseded,
        TakenOver."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        problem, self._problem = self._problem, None
        if isinstance(problem, LockstepError):
            raise problem
        if problem is not None:
            assert self._newest is not None, "a problem is that of a save"
            self.note_failed(self._newest, problem)
        return problem

    def note_failed(self, step: int, problem: Exception) -> None:
        """Counts and tells it."""
        self.counts = self.counts._replace(failed=self.counts.failed + 1)
        print(f"lockstep: checkpoint of step {step} not written: {problem}", file=sys.stderr,
              flush=True)

    def has_saved(self, step: int, writer: Writer) -> bool:
        """Whether the checkpoint of `step` is there, whole, and `writer`'s. Errors: OSError."""
        try:
            its = Writer.of_fields(_read_manifest(self._path_of(step)))
        except (ValueError, KeyError, FileNotFoundError, NotADirectoryError):
            return False
        return its == writer and self._is_whole(step)

    def load_newest(self, fingerprint: dict[str, str]) -> Optional[dict[str, Any]]:
        """The state of the highest step whose files verify; None where there is none. The rule and
        the sentences are the built-in trainer's, CheckpointDirectory::LoadNewest.

        Errors: Mismatch (it has another fingerprint: names the fields; it is of a later release),
        LockstepError (there are some, and all are damaged; one cannot be read).
        """
        for folder, manifest, raw in self.whole("; move that folder away to begin at step 0"):
            saved = (manifest.get("fingerprint") or {}).get("lockstep.torch")
            words = (differences(fingerprint, saved) if isinstance(saved, dict) else
                     "it was not written by lockstep.torch.Job of this release")
            if words is not None:
                raise Mismatch(f"{folder} does not fit this job: {words}; to begin at step 0, set "
                               "another checkpoint_directory", Status.MISMATCH)
            state: dict[str, Any] = unflatten(decode(raw))
            return state
        return None

    def whole(self, advice: str = "") -> Iterator[tuple[pathlib.Path, dict[str, Any], bytes]]:
        """Folder, manifest and tensors of those whose files verify, newest first; others are told
        on standard error and skipped. Nothing where the directory is not there or has none.

        Errors: Mismatch (one is of a later release), LockstepError (all are damaged, with `advice`;
        one, or the directory, cannot be read), Removed.
        """
        try:
            steps = self.steps()
        except FileNotFoundError:
            return
        except OSError as error:
            raise LockstepError(f"{self._directory} cannot be read: {error}", Status.SYSTEM
                                ) from error
        own_steps = self._own_steps()
        first_damage: Optional[str] = None
        is_none_left = bool(steps)
        for step, folder in reversed(steps):
            try:
                manifest, raw = self.read(step, folder, own_steps)
            except _LaterFormat as later:
                raise Mismatch(_unreadable(folder, later), Status.MISMATCH) from later
            except _CameLater as later_job:
                tell_skipped(folder, str(later_job))
            except _DAMAGE as damage:
                if isinstance(damage, OSError) and not folder.exists():
                    continue
                tell_skipped(folder, words_of(damage))
                first_damage = first_damage or f"{folder}: {words_of(damage)}"
            except OSError as error:
                # It may be whole: an older one would undo finished work without a word.
                raise LockstepError(_unreadable(folder, error), Status.SYSTEM) from error
            else:
                yield folder, manifest, raw
            is_none_left = False
        if first_damage is not None:
            # To begin at step 0 beside finished work is for its owner to say.
            raise LockstepError(
                f"no checkpoint in {self._directory} can be used{advice}: {first_damage}",
                Status.SYSTEM)
        if is_none_left:
            raise Removed(f"{self._directory}: all checkpoints were removed while they were read",
                          Status.SYSTEM)

    def _own_steps(self) -> list[int]:
        """Of the checkpoints that this job wrote."""
        own = []
        for step, folder in self.steps():
            with contextlib.suppress(OSError, ValueError, KeyError):
                if self._is_own(_read_manifest(folder)):
                    own.append(step)
        return own

    def _is_own(self, manifest: dict[str, Any]) -> bool:
        return self._writer is None or bool(manifest["jobUid"] == self._writer.job_uid)

    def read(
        self, step: int, folder: pathlib.Path, own_steps: list[int]
    ) -> tuple[dict[str, Any], bytes]:
        """Manifest and tensors, verified; `own_steps` are those of this job's own checkpoints.
        Errors: those of _DAMAGE, OSError, _LaterFormat, _CameLater."""
        if folder.exists() and not folder.is_dir():
            raise ValueError("it is not a folder")
        manifest = _read_manifest(folder)
        if manifest["step"] != step:
            raise ValueError(f"manifest: step: {manifest['step']} found, expected {step}")
        if not self._is_own(manifest) and own_steps and step > own_steps[0]:
            assert self._writer is not None, "else all checkpoints are its own"
            raise _CameLater(
                f"written by job {manifest['jobUid']}, expected {self._writer.job_uid}")
        path = folder / manifest["tensors"]["file"]
        raw = read_regular(path, manifest["tensors"]["bytes"])
        if len(raw) != manifest["tensors"]["bytes"]:
            raise ValueError(
                f"{path} has {len(raw)} bytes, expected {manifest['tensors']['bytes']}")
        digest = hashlib.sha256(raw).hexdigest()
        if digest != manifest["tensors"]["sha256"]:
            raise ValueError(
                f"{path} hashes to {digest}, expected {manifest['tensors']['sha256']}")
        return manifest, raw

    def steps(self) -> list[tuple[int, pathlib.Path]]:
        """Of all that are there, in order, and their folders. Errors: OSError."""
        found = [(_STEP_NAME.fullmatch(path.name), path) for path in self._directory.iterdir()]
        return sorted((int(match[1]), path) for match, path in found if match)

    def _save(self, tensors: dict[str, torch.Tensor], tree: str, manifest: Manifest) -> None:
        try:
            self._write(tensors, tree, manifest)
        except OSError as error:
            self._problem = NotWritten(error, self._directory)
        except Exception as error:  # whatever it is, the step is not saved
            self._problem = error
        else:
            self._published = manifest.step
            self.counts = self.counts._replace(written=self.counts.written + 1)

    def _write(self, tensors: dict[str, torch.Tensor], tree: str, manifest: Manifest) -> None:
        writer = self._writer
        assert writer is not None, "claim comes first"
        raw = encode(tensors, tree)
        folder = self._directory / f".tmp-{secrets.token_hex(8)}"
        folder.mkdir()
        try:
            write_lasting(folder / _TENSORS, raw)
            document = {
                "formatVersion": _FORMAT_VERSION,
                **writer.fields(),
                "step": manifest.step,
                "cursor": {"dataEpoch": manifest.data_epoch, "position": manifest.position,
                           "samplesConsumed": manifest.samples_consumed},
                "seed": manifest.seed,
                "worldSize": manifest.world_size,
                "fingerprint": {"lockstep.torch": manifest.fingerprint},
                "epochSums": {"dataEpoch": manifest.data_epoch, "lossSum": None,
                              "correctCount": 0, "sampleCount": 0},
                "isFinite": all(is_finite(tensor) for tensor in tensors.values()),
                "tensors": {"file": _TENSORS, "bytes": len(raw),
                            "sha256": hashlib.sha256(raw).hexdigest()},
                "created": datetime.datetime.now(datetime.timezone.utc).strftime(
                    "%Y-%m-%dT%H:%M:%SZ"),
            }
            write_lasting(folder / _MANIFEST, dump_hashed(document))
            sync(folder)
            self._publish(folder, self._path_of(manifest.step), writer)
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # what failed, or what stood there before
        self._remove_old(manifest.step)

    def _publish(self, folder: pathlib.Path, target: pathlib.Path, writer: Writer) -> None:
        with locked(self._directory):
            self._check_holder(self._read_fence()[0], writer)
            exchange(folder, target)
            sync(self._directory)

    def _path_of(self, step: int) -> pathlib.Path:
        return self._directory / f"step-{step:08}"

    def _is_whole(self, step: int) -> bool:
        return _look(self._path_of(step)) in (_Soundness.FINITE, _Soundness.NOT_FINITE)

    def _remove_old(self, newest: int) -> None:
        """The built-in trainer's rule: trainer-runtime/checkpoint/testdata/retention.txt."""
        kept = 0
        has_finite = False
        for step, folder in reversed(self.steps()):
            if step > newest:
                continue  # it is damaged, or this run would have started from it
            soundness = _look(folder)
            # The newest finite one is what a run gone wild can start from again.
            is_last_resort = soundness is _Soundness.FINITE and not has_finite
            has_finite = has_finite or is_last_resort
            is_whole = soundness in (_Soundness.FINITE, _Soundness.NOT_FINITE)
            if soundness is _Soundness.UNREADABLE or is_last_resort or (
                    is_whole and kept < self._keep) or step == newest:
                kept += int(is_whole)
                continue  # the newest was whole a moment ago: somebody is removing it
            # Renamed first: a kill in the middle leaves no half checkpoint under its name.
            removed = self._directory / f".tmp-remove-{secrets.token_hex(8)}"
            with contextlib.suppress(OSError):
                folder.rename(removed)
                shutil.rmtree(removed, ignore_errors=True)

    def _check_holder(self, holder: Writer, writer: Writer) -> None:
        if holder.job_uid != writer.job_uid:
            raise self._taken_over_by(holder)
        if holder.order() > writer.order():
            raise Superseded(
                f"{self._directory} is now written by {holder}, not by {writer}: the other "
                "process saves, and you need to do nothing", Status.SUPERSEDED)

    def _taken_over_by(self, holder: Writer) -> TakenOver:
        return TakenOver(
            f"the checkpoint directory {self._directory} was taken over by job {holder.job_uid}, "
            "which began to write there later; two jobs must not share one: set another "
            "checkpoint_directory in this job",
            Status.SUPERSEDED)

    def _read_fence(self) -> tuple[Writer, list[str]]:
        """Who holds it, and which jobs are shut out. Errors: FileNotFoundError, ValueError."""
        fence = read_hashed(self._directory / _FENCE)
        return Writer.of_fields(fence), list(fence.get("shutOut", []))

    def _read_fence_or_none(self) -> tuple[Optional[Writer], list[str]]:
        try:
            return self._read_fence()
        except FileNotFoundError:
            return None, []
        except ValueError as damage:
            # Whoever claims has met all ranks, so nobody newer can have written it.
            print(f"lockstep: {self._directory / _FENCE} is damaged and is replaced: {damage}",
                  file=sys.stderr, flush=True)
            return None, []

    def _write_atomically(self, name: str, text: bytes) -> None:
        temporary = self._directory / f".{name}.{secrets.token_hex(8)}"
        write_lasting(temporary, text)
        temporary.rename(self._directory / name)
        sync(self._directory)


def _unreadable(folder: pathlib.Path, error: Exception) -> str:
    return f"the newest checkpoint, {folder}, cannot be read: {words_of(error)}"


def _read_manifest(folder: pathlib.Path) -> dict[str, Any]:
    """Errors: FileNotFoundError, ValueError (it is damaged), _LaterFormat."""
    manifest = read_hashed(folder / _MANIFEST)
    version = manifest.get("formatVersion")
    if isinstance(version, int) and version > _FORMAT_VERSION:
        raise _LaterFormat(
            f"manifest: format version {version}, expected 1 to {_FORMAT_VERSION}: it was written "
            "by a later release")
    check_manifest(manifest)
    return manifest


def _look(folder: pathlib.Path) -> _Soundness:
    try:
        manifest = _read_manifest(folder)
        file = manifest["tensors"]
        path = folder / file["file"]
        if not path.is_file() or path.stat().st_size != file["bytes"]:
            return _Soundness._DAMAGED
        return _Soundness.FINITE if manifest["isFinite"] else _Soundness.NOT_FINITE
    except _LaterFormat:
        return _Soundness.UNREADABLE
    except (ValueError, KeyError, FileNotFoundError, NotADirectoryError):
        return _Soundness._DAMAGED
    except OSError:
        return _Soundness.UNREADABLE
