"""What a process leaves for whoever asks why it ended (docs/reference/pod-endpoints.md)."""

from __future__ import annotations

import contextlib
import json
import math
import os
from typing import NamedTuple

from lockstep.session import Progress

# Choice: two texts of so many characters fit into the 4096 bytes of the file, escaped or not.
_TEXT_MAX = 300


class Checkpoints(NamedTuple):
    """What became of those of a process."""

    written: int
    failed: int


def leave_unsaved(
    outcome: str, reason: str, progress: Progress, checkpoints: Checkpoints, problem: Exception
) -> None:
    """Says that the state at the end is not saved, because of `problem`. `outcome` is a word of the
    contract. A process that is in no job, or cannot write there, leaves its exit code alone."""
    words: dict[str, object] = {
        "outcome": outcome,
        "reason": reason[:_TEXT_MAX],
        "lastStep": progress.step,
        "stepsTotal": progress.steps_total,
        "dataEpoch": progress.data_epoch,
        "checkpoints": {
            **checkpoints._asdict(), "skipped": 0, "lastError": str(problem)[:_TEXT_MAX]},
    }
    loss = progress.loss
    if loss is not None and math.isfinite(loss):
        words["trainingLoss"] = loss
    path = os.environ.get("LOCKSTEP_TERMINATION_MESSAGE_FILE")
    with contextlib.suppress(OSError):
        if path:
            _write_in_place(path, json.dumps(words).encode())


def _write_in_place(path: str, content: bytes) -> None:
    """A file that is cut first gives up the room that was taken for it on a full disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, content)
        os.ftruncate(descriptor, len(content))
    finally:
        os.close(descriptor)
