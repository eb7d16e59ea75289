"""A directory of checkpoints as in docs/reference/checkpoints.md, with a writer beside training."""

from __future__ import annotations

import os
import pathlib
import sys
import threading
from typing import Any, Optional, Union

from lockstep.errors import InvalidArgument, LockstepError, Mismatch, Status
from lockstep.last_words import Checkpoints
from lockstep.torch.agreement import differences
from lockstep.torch.checkpoint_files import CheckpointFiles, Manifest, Writer
from lockstep.torch.not_written import NotWritten
from lockstep.torch.state import FlatState


class CheckpointStore:
    """Complete checkpoints appear at once; `keep` of them stay. Thread: one calling thread; the
    writer is inside, and holds copies."""

    def __init__(self, directory: Union[str, os.PathLike[str]], keep: int) -> None:
        self._directory = pathlib.Path(directory)
        self._files = CheckpointFiles(self._directory, max(1, keep))
        self._thread: Optional[threading.Thread] = None
        self._problem: Optional[Exception] = None
        self._newest: Optional[int] = None  # the step that was to be saved last
        self._published: Optional[int] = None  # the step that this process has saved last
        self.counts = Checkpoints(written=0, failed=0)  # once a `flush` is over

    def make(self) -> None:
        """Makes the directory, where it is not there. Errors: InvalidArgument."""
        try:
            self._files.make()
        except InvalidArgument as error:
            raise InvalidArgument(f"checkpoint_{error}") from None

    def claim(self, writer: Writer) -> None:
        """Makes this process the one that writes. Errors: Superseded (a newer writer of the job
        holds the directory), TakenOver (another job does), NotWritten."""
        self.flush()
        try:
            self._files.claim(writer)
        except OSError as error:
            raise NotWritten(error, self._directory) from None

    def save_async(self, state: FlatState, manifest: Manifest) -> None:
        """Copies the state and returns; the one before is waited for. Where no thread can be
        started, it returns once all is written. A step that this process has saved already is not
        written again: its state is the same. Precondition: `claim`.

        Errors: those of `flush`, of the one before.
        """
        self.flush()
        if manifest.step == self._published and self._files.is_whole(manifest.step):
            return
        copied = FlatState(state.tree, {
            name: tensor.detach().cpu().clone().contiguous()
            for name, tensor in state.tensors.items()})
        self._newest = manifest.step
        thread = threading.Thread(
            target=self._save, args=(copied, manifest), name="lockstep-checkpoint")
        try:
            thread.start()
        except RuntimeError:  # as at the interpreter's exit, from Python 3.12 on
            self._save(copied, manifest)
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
        """Whether the checkpoint of `step` is there, whole, and `writer`'s."""
        return self._files.is_whole(step, writer)

    def load_newest(self, fingerprint: dict[str, str]) -> Optional[dict[str, Any]]:
        """The state of the highest step whose files verify; None where there is none.

        Errors: Mismatch (it has another fingerprint: names the fields; it is of a later release),
        LockstepError (there are some, and all are damaged; one cannot be read).
        """
        found = self._files.newest()
        if found is None:
            return None
        saved = found.fingerprint
        words = (differences(fingerprint, saved) if isinstance(saved, dict) and found.tree else
                 "lockstep.torch.Job of this release did not write it")
        if words is not None:
            raise Mismatch(f"{found.folder} does not fit this job: {words}; to begin at step 0, "
                           "set another checkpoint_directory", Status.MISMATCH)
        state: dict[str, Any] = found.state()
        return state

    def _save(self, state: FlatState, manifest: Manifest) -> None:
        try:
            self._files.write(manifest, state)
        except OSError as error:
            self._problem = NotWritten(error, self._directory)
        except Exception as error:  # whatever it is, the step is not saved
            self._problem = error
        else:
            self._published = manifest.step
            self.counts = self.counts._replace(written=self.counts.written + 1)
