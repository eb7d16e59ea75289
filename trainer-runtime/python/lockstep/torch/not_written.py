"""What keeps a checkpoint from being written, in words for whoever can mend it."""

from __future__ import annotations

import errno
import os
import pathlib

# What its user can do about a checkpoint that cannot be written.
_GONE = "restore what was removed or unmounted there; the job needs the folder while it runs"
_SHUT = f"give user {os.geteuid()}, who runs this process, the right to write there"
_SICK = "check the disk, or the server of that file system"
_ROOM = "free space there, or keep fewer checkpoints (checkpoint_keep)"
_REMEDIES = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EACCES: _SHUT,
    errno.EPERM: _SHUT,
    errno.EROFS: "mount the file system for writing",
    errno.ENOENT: _GONE,
    errno.ENOTDIR: _GONE,
    errno.EIO: _SICK,
    errno.ESTALE: _SICK,
}


class NotWritten(OSError):
    """A checkpoint could not be: says why, where, and what its user can do about it."""

    def __init__(self, error: OSError, directory: pathlib.Path) -> None:
        remedy = _REMEDIES.get(error.errno or 0)
        super().__init__(f"{error.strerror}: {directory}" + (
            "" if remedy is None else f"; {remedy}") if error.strerror else str(error))
