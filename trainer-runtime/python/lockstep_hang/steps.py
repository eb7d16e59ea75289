"""Counts the steps that torch's optimizers take, in a file that the runtime reads. So a program
that reports nothing shows its step, and the runtime notices when its steps stop."""

from __future__ import annotations

import mmap
import os
import weakref
from typing import Any, Optional

# Set by the runtime: a file of three numbers of 8 bytes for each process that it starts
# (trainer-runtime/supervisor/status/step_file.h).
VARIABLE = "LOCKSTEP_STEP_FILE"
COUNT, STEP, WRITER = range(3)
UNKNOWN = -1


class Counter:
    """Of this process. A fork counts for itself. Thread: that of the optimizers."""

    def __init__(self) -> None:
        self._pid = 0  # of the process that opened the file
        self._numbers: Optional[memoryview] = None
        self._is_first = False  # no training went on from another one's checkpoint
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def note(self, optimizer: Any) -> None:
        """The optimizer has taken a step."""
        if self._pid != os.getpid():
            self._open()
        if self._numbers is None:
            return
        last = self._steps.get(optimizer)
        if last is None:
            self._steps[optimizer] = self._first(optimizer)
        elif last != UNKNOWN:
            self._steps[optimizer] = last + 1
        # A program may have several: the one that has taken most stands for the training.
        self._numbers[STEP] = max(self._steps.values())
        self._numbers[COUNT] += 1

    def _open(self) -> None:
        self._pid = os.getpid()
        self._numbers = None
        self._steps.clear()
        path = os.environ.get(VARIABLE)
        place = os.environ.get("LOCKSTEP_LOCAL_RANK", "0")
        if not path or os.environ.get("LOCAL_RANK", place) != place:
            return  # one of torchrun's workers: the first counts
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            numbers = memoryview(mmap.mmap(file, 0)).cast("q")[3 * int(place):]
        finally:
            os.close(file)
        writer = numbers[WRITER]
        if writer not in (0, self._pid) and os.path.exists(f"/proc/{writer}"):
            return  # a process of the same program counts already
        numbers[WRITER] = self._pid
        starts = [os.environ.get(f"LOCKSTEP_{name}", "0") for name in ("ATTEMPT", "INCARNATION")]
        self._is_first = numbers[COUNT] == 0 and starts == ["0", "0"]
        self._numbers = numbers

    def _first(self, optimizer: Any) -> int:
        """The number of the step that it has just taken. Adam and others count; it may go on from a
        checkpoint."""
        state = next(iter(optimizer.state.values()), {})
        step = state.get("step") if hasattr(state, "get") else None
        if step is not None and getattr(getattr(step, "device", None), "type", "cpu") == "cpu":
            return int(step)
        return 1 if self._is_first else UNKNOWN


_counter = Counter()
_is_counting = False


def count() -> None:
    """Begins to count; does nothing outside of a job, and with a torch before 2.0. It never
    raises."""
    global _is_counting
    if _is_counting or not os.environ.get(VARIABLE):
        return
    try:
        from torch.optim import optimizer as torch_optimizer
        torch_optimizer.register_optimizer_step_post_hook(_note)
        _is_counting = True
    except Exception:
        return


def _note(optimizer: Any, _arguments: Any, _keywords: Any) -> None:
    """An error in here is no reason to stop a training."""
    try:
        _counter.note(optimizer)
    except Exception:
        return


# torch.compile does not look into it.
_note._torchdynamo_disable = True  # type: ignore[attr-defined]
