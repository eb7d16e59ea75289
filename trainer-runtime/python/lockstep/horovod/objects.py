"""Objects from rank to rank, pickled on the way."""

from __future__ import annotations

import pickle
from typing import Any, Optional

from lockstep.horovod.arguments import ProcessSet, check_process_set, check_root
from lockstep.horovod.header import Call, Kind
from lockstep.horovod.process import current


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> Any:
    """`obj` of rank `root_rank` on all ranks. That of others is not looked at.
    Errors: InvalidArgument, those of pickle and of `World`."""
    check_process_set(process_set)
    here = current()
    name = here.name("broadcast_object", name)
    check_root(root_rank, name)
    is_root = here.rank == root_rank
    raw = pickle.dumps(obj) if is_root else b""
    call = Call(Kind.BROADCAST, name, "an object", root=root_rank, length=len(raw))
    received = here.broadcast(
        call, lambda length: here.arrays.of_bytes(raw if is_root else bytes(length)))
    return obj if is_root else pickle.loads(here.arrays.raw_bytes(received))


def allgather_object(
    obj: Any, name: Optional[str] = None, process_set: Optional[ProcessSet] = None
) -> list[Any]:
    """`obj` of each rank in their order. Errors: as above."""
    check_process_set(process_set)
    here = current()
    name = here.name("allgather_object", name)
    raw = pickle.dumps(obj)
    call = Call(Kind.ALLGATHER, name, "objects", length=len(raw))
    return [pickle.loads(here.arrays.raw_bytes(one))
            for one in here.gather(call, here.arrays.of_bytes(raw))]
