"""Packs folders so that equal content makes equal bytes: sorted names, one time, no owner.

Usage: archive.py FOLDER FILE.tar.gz NAME    FOLDER's content goes below NAME/
       archive.py --wheel FILE.whl           packs a wheel anew, in place
"""

import gzip
import os
import pathlib
import sys
import tarfile
import zipfile
from datetime import datetime, timezone

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])


def pack_folder(folder, archive, name):
    with open(archive, "wb") as file, gzip.GzipFile("", "wb", 9, file, EPOCH) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in (folder, *sorted(folder.rglob("*"))):
            entry = tar.gettarinfo(path, str(pathlib.PurePath(name) / path.relative_to(folder)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = EPOCH
            is_open_to_run = entry.isdir() or entry.mode & 0o100
            entry.mode = 0o755 if is_open_to_run else 0o644
            with open(path, "rb") if entry.isreg() else open(os.devnull, "rb") as content:
                tar.addfile(entry, content if entry.isreg() else None)


def pack_wheel(wheel):
    """RECORD stays the last file, as installers like to find it."""
    moment = datetime.fromtimestamp(EPOCH, timezone.utc).timetuple()[:6]
    with zipfile.ZipFile(wheel) as old:
        entries = {each.filename: (each.external_attr, old.read(each)) for each in old.infolist()}
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as new:
        for name in sorted(entries, key=lambda one: (one.endswith("/RECORD"), one)):
            attributes, content = entries[name]
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            is_program = attributes >> 16 & 0o100 or ".data/scripts/" in name
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            new.writestr(entry, content)


if __name__ == "__main__":
    if sys.argv[1] == "--wheel":
        pack_wheel(sys.argv[2])
    else:
        pack_folder(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3])
