"""Answers the runtime where this process stands while the job's steps have stopped: what it has
called in each process group of torch, and where its main thread is. It also counts the steps
(steps.py). torch starts it by itself where the package is installed (entry points in
pyproject.toml, torch 2.5 and newer).

It is no part of the package `lockstep`: a program with a module of that name beside it could not
import torch any more."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import zlib
from typing import Any, Optional

from lockstep_hang import steps

# Set by the runtime. Each process listens at this name, "-" and its
# number, in Linux's abstract namespace: no file is left behind.
VARIABLE = "LOCKSTEP_HANG_SOCKET"

# The runtime's own bounds (common/contract/status/hang_evidence.h).
_GROUPS_MAX = 32
_TEXT_MAX = 200

_TOLD = ("id", "name", "called", "waitsIn", "operation")  # of a group

_PATIENCE_SECONDS = 1.0
_CALLS = os.path.join("torch", "distributed", "distributed_c10d.py")
_FOREIGN = ("/lib/python", "/site-packages/", "/dist-packages/", "<frozen ")

_listening: Optional[int] = None  # the process that does: a fork has no such thread


def start() -> None:
    """Begins all of it. A fork begins anew."""
    answer_requests()
    steps.count()


def answer_requests() -> None:
    """Begins to answer; does nothing outside of a job. It never raises, as
    torch could not be imported then."""
    global _listening
    name = os.environ.get(VARIABLE)
    if not name or _listening == os.getpid():
        return
    with contextlib.suppress(Exception):
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(f"\0{name}-{os.getpid()}")
        server.listen(2)
        threading.Thread(
            target=_serve, args=(server,), name="lockstep-hang", daemon=True).start()
        _listening = os.getpid()


def _serve(server: socket.socket) -> None:
    """A thread of its own, as the main one is what hangs."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with contextlib.suppress(Exception), connection:
            connection.settimeout(_PATIENCE_SECONDS)
            connection.sendall(json.dumps(_evidence()).encode())


def _evidence() -> dict[str, Any]:
    groups: list[dict[str, Any]] = []
    rank = _rank()
    place, call = _place()
    with contextlib.suppress(Exception):
        groups = groups_of(_recorded(), _members(), rank)
    if call and groups:  # which the recorder may not know: who waits there is not who is waited for
        waits = _group(f"call-{rank}", f"calls of rank {rank}")
        groups = [{**waits, "called": 1, "waitsIn": 1, "operation": call}, *groups]
    told = [{key: group[key] for key in _TOLD} for group in groups[:_GROUPS_MAX]]
    return {"rank": rank, "place": place, "groups": told}


def _rank() -> int:
    torch: Any = sys.modules.get("torch")
    with contextlib.suppress(Exception):
        if torch.distributed.is_initialized():
            return int(torch.distributed.get_rank())
    return int(os.environ.get("RANK", "0"))


def _recorded() -> dict[str, Any]:
    """What torch's Flight Recorder holds; empty where it has none."""
    c10d: Any = sys.modules.get("torch._C._distributed_c10d")
    if c10d is None:
        c10d = sys.modules["torch"]._C._distributed_c10d
    dump = getattr(c10d, "_dump_fr_trace_json", None)
    if dump is not None:
        return dict(json.loads(dump(includeCollectives=True, onlyActive=False)))
    return dict(json.loads(c10d._dump_nccl_trace_json(includeCollectives=True, onlyActive=False)))


def _members() -> dict[str, tuple[str, list[int]]]:
    """Of each process group of this process, by its name: what it is for, and its ranks."""
    c10d: Any = sys.modules["torch.distributed.distributed_c10d"]
    return {str(name): (str(getattr(group, "group_desc", "")),
                        [int(rank) for rank in c10d.get_process_group_ranks(group)])
            for group, name in dict(c10d._world.pg_names).items()}


def groups_of(record: dict[str, Any], members: dict[str, tuple[str, list[int]]],
              rank: int = 0) -> list[dict[str, Any]]:
    """Of each process group what was called last, and what this process waits in: those in which it
    waits first, then those used last. Sends and receives, of all groups together, are told as a
    group of this rank alone: who waits in one is not who others wait for."""
    groups: dict[str, dict[str, Any]] = {}
    for name, (described, ranks) in members.items():
        described = described if described not in ("", "undefined") else name
        groups[name] = _group(f"{name}-{zlib.crc32(str(ranks).encode()):08x}", f"group {described}")
    sends = _group(f"sends-{rank}", f"sends of rank {rank}")
    entries = sorted(record.get("entries", []), key=lambda entry: int(entry["record_id"]))
    for entry in entries:
        is_send = bool(entry.get("is_p2p"))
        group = sends if is_send else groups.get(str(entry["process_group"][0]))
        if group is None:
            continue
        used = int(entry["record_id"]) + 1
        number = used if is_send else int(entry["collective_seq_id"])
        if number < group["called"]:  # a group that was made anew under the same name
            group.update(called=0, waitsIn=0)
        group["used"] = used
        group["called"] = number
        operation = str(entry["profiling_name"]).rsplit(":", 1)[-1][:_TEXT_MAX]
        is_open = entry["state"] != "completed" and not entry.get("retired")
        if is_open and group["waitsIn"] == 0:
            group.update(waitsIn=number, operation=operation)
        elif group["waitsIn"] == 0:
            group["operation"] = operation
    # The recorder holds the newest entries: of a group that has none, older ones may be forgotten.
    has_forgotten = not entries or int(entries[0]["record_id"]) > 0
    known = [group for group in groups.values() if group["called"] or not has_forgotten]
    known += [sends] if sends["called"] else []
    known.sort(key=lambda group: (group["waitsIn"] == 0, -group["used"]))
    return known


def _group(identity: str, name: str) -> dict[str, Any]:
    return {"id": identity, "name": name[:_TEXT_MAX], "called": 0, "waitsIn": 0, "operation": "",
            "used": 0}


def _place() -> tuple[str, str]:
    """The innermost function of the program itself in the main thread, not of Python or a package,
    if there is one; and the function of torch.distributed that it has called, if it is in one."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    innermost = call = ""
    while frame is not None:
        code = frame.f_code
        file = os.path.basename(code.co_filename)
        place = f"{code.co_name} ({file}:{frame.f_lineno})"[:_TEXT_MAX]
        if not any(mark in code.co_filename for mark in _FOREIGN):
            return place, call
        if code.co_filename.endswith(_CALLS):
            call = code.co_name[:_TEXT_MAX]
        innermost = innermost or place
        frame = frame.f_back
    return innermost, call
