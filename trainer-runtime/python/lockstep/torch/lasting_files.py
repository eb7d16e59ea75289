"""What a folder of checkpoints needs of its file system: one writer at a time, and files that are
whole or not there."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import pathlib
import shutil
import time
from typing import Iterator

# Choice, as in trainer-runtime/checkpoint: far longer than some system calls take.
_LOCK_SECONDS = 5.0
_ASK_AGAIN_SECONDS = 0.002


@contextlib.contextmanager
def locked(directory: pathlib.Path) -> Iterator[None]:
    """The built-in trainer's lock; held for some system calls. Errors: OSError (ETIMEDOUT: another
    process holds it for longer)."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(folder)
        yield
    finally:
        os.close(folder)


def _lock(folder: int) -> None:
    """flock(2) knows no deadline, and whoever holds the lock may be stopped, or on a file system
    that hangs."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OSError(errno.ETIMEDOUT, "Locked by another process") from None
        time.sleep(_ASK_AGAIN_SECONDS)


_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def exchange(folder: pathlib.Path, target: pathlib.Path) -> None:
    """Puts `folder` at `target`, the folder of a step, which has one at each moment. What stood
    there, if anything, is at `folder` afterwards. Errors: OSError."""
    try:
        folder.rename(target)
        return  # nothing stood there, or an empty folder
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    paths = os.fsencode(folder), os.fsencode(target)
    if rename(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
        return
    # Some network file systems cannot exchange. "step-0010" and "step-010" are the same step, so a
    # crash between two renames hides no checkpoint.
    aside = target.with_name(target.name.replace("-", "-0", 1))
    shutil.rmtree(aside, ignore_errors=True)  # of a crash in the midst of this
    target.rename(aside)
    try:
        folder.rename(target)
    except OSError:
        aside.rename(target)
        raise
    sync(target.parent)
    aside.rename(folder)


def write_lasting(path: pathlib.Path, content: bytes) -> None:
    """Its bytes are on the disk on return. Errors: OSError."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: pathlib.Path) -> None:
    """So are the names in `folder`. Errors: OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
