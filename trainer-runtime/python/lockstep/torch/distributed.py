"""The backend "lockstep" of torch.distributed: import this module, then
`torch.distributed.init_process_group("lockstep")`, and DistributedDataParallel sums by our library.

There is one group, of all ranks of the job. A call returns when it is done. All ranks call
`destroy_process_group` when all work is done: nobody meets after that. A rank that is lost ends the
others with exit code 75, which starts the gang anew; who wants to go on uses `Job`.
"""

from __future__ import annotations

import collections
import datetime
import functools
import sys
from typing import Any, NoReturn, Optional

import torch
import torch.distributed as dist

from lockstep.errors import Ended, InvalidArgument, MeetAgain
from lockstep.library import Op
from lockstep.torch.session import Session
from lockstep.torch.state import bytes_of

__all__ = ["ProcessGroup"]

# Releases of torch that lose what Python has added to a call's result once nothing in Python holds
# it: DistributedDataParallel holds some hundred at most, a bucket each.
_WORKS_MAX = 4096


class _Work(dist.distributed_c10d.Work):
    """A call that is done."""

    def __init__(self, result: list[Any]) -> None:
        super().__init__()
        self._future: torch.futures.Future[Any] = torch.futures.Future()
        self._future.set_result(result)

    def wait(self, timeout: Optional[datetime.timedelta] = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def get_future(self) -> Any:
        return self._future


class ProcessGroup(dist.ProcessGroup):
    """All ranks of the job. Tensors on GPUs are copied to the host and back."""

    def __init__(self, rank: int, size: int, timeout: datetime.timedelta) -> None:
        """Opens the session and meets. Errors: InvalidArgument (a group of some ranks), those of
        `Session`; the session is closed then."""
        super().__init__(rank, size)
        self._timeout = timeout.total_seconds()
        self._works: collections.deque[_Work] = collections.deque(maxlen=_WORKS_MAX)
        self._session = Session(plan="torch.distributed")
        try:
            meeting = self._session.meet(False, 0, self._timeout)
            if (meeting.rank, meeting.size) != (rank, size):
                raise InvalidArgument(
                    f"group: rank {rank} of {size} found, expected {meeting.rank} of "
                    f"{meeting.size}; the backend lockstep has one group, of all ranks")
        except BaseException as error:
            self._session.close()
            if isinstance(error, Ended):  # all others have finished, or another stands for it
                print(f"lockstep: {error}", file=sys.stderr, flush=True)
                sys.exit(error.exit_code)
            raise

    def leave(self) -> bool:
        """Closes the session: once all ranks do, where this one ends well; at once on the way of an
        exception, whose end is told by its exit code. Whether it ended well.

        Errors: Mismatch (others still work).
        """
        ends_well = sys.exc_info()[0] is None
        try:
            if ends_well:
                self._session.finish(self._timeout)
        except MeetAgain as lost:
            # This rank's own work is done, whatever the others come to.
            print(f"lockstep: the group is destroyed on this rank alone: {lost}", file=sys.stderr,
                  flush=True)
        finally:
            self._session.close()
        return ends_well

    def getBackendName(self) -> str:
        return "lockstep"

    def allreduce(  # type: ignore[override]
        self, tensors: list[torch.Tensor], opts: Any = None
    ) -> _Work:
        for tensor in tensors:
            self._reduce(tensor, opts)
        return self._done(tensors)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> _Work:
        return self.allreduce(tensors, opts)

    def reduce(  # type: ignore[override]
        self, tensors: list[torch.Tensor], opts: Any = None
    ) -> _Work:
        for tensor in tensors:
            kept = tensor if self._session.rank == opts.rootRank else tensor.clone()
            self._reduce(kept, opts)
        return self._done(tensors)

    def broadcast(  # type: ignore[override]
        self, tensors: list[torch.Tensor], opts: Any = None
    ) -> _Work:
        for tensor in tensors:
            staged = _staged(tensor)
            self._try("broadcast", bytes_of(staged), opts.rootRank, self._timeout)
            _put(tensor, staged)
        return self._done(tensors)

    def allgather(  # type: ignore[override]
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> _Work:
        for blocks, tensor in zip(outputs, inputs):
            for block, found in zip(blocks, self._gather(tensor)):
                block.copy_(found)
        return self._done(outputs)

    def _allgather_base(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> _Work:
        output.copy_(self._gather(tensor).reshape(output.shape))
        return self._done([output])

    def reduce_scatter(  # type: ignore[override]
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None
    ) -> _Work:
        for output, blocks in zip(outputs, inputs):
            self._scatter(output, torch.stack(blocks), opts)
        return self._done(outputs)

    def _reduce_scatter_base(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> _Work:
        self._scatter(output, tensor.reshape(self._session.size, *output.shape), opts)
        return self._done([output])

    def barrier(self, opts: Any = None) -> _Work:
        self._try("barrier", self._timeout)
        return self._done([])

    def _reduce(self, tensor: torch.Tensor, opts: Any) -> None:
        staged = _staged(tensor)
        self._try("all_reduce", staged, _op_of(opts.reduceOp), self._timeout)
        _put(tensor, staged)

    def _gather(self, tensor: torch.Tensor) -> torch.Tensor:
        """Shapes: result [size, ...]."""
        staged = _staged(tensor)
        found: torch.Tensor = self._try("all_gather", bytes_of(staged), self._timeout)
        return found.view(-1).view(staged.dtype).reshape(-1, *tensor.shape)

    def _scatter(self, output: torch.Tensor, blocks: torch.Tensor, opts: Any) -> None:
        op = _op_of(opts.reduceOp)
        output.copy_(self._try("reduce_scatter", _staged(blocks), op, self._timeout))

    def _try(self, name: str, *arguments: Any) -> Any:
        """A call of the session. A loss is nothing that a program for torch.distributed can answer:
        it ends, so that the gang starts anew."""
        try:
            return getattr(self._session, name)(*arguments)
        except MeetAgain as lost:
            print(f"lockstep: {lost}", file=sys.stderr, flush=True)
            _end(lost.exit_code)

    def _done(self, result: list[Any]) -> _Work:
        work = _Work(result)
        self._works.append(work)
        return work


def _end(exit_code: int) -> NoReturn:
    """Ends the process so. A call from the midst of `backward` goes through torch's own code, which
    makes a RuntimeError of SystemExit in some releases: one that nobody answers ends it as well."""
    hook = sys.excepthook

    def ending(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if not (isinstance(error, RuntimeError) and str(error).startswith("SystemExit")):
            hook(kind, error, trace)
            return
        sys.exit(exit_code)

    sys.excepthook = ending
    sys.exit(exit_code)


def _staged(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, where the library can work on it, else a copy."""
    return tensor.detach().cpu().contiguous()


def _put(tensor: torch.Tensor, staged: torch.Tensor) -> None:
    if staged.data_ptr() != tensor.data_ptr():
        with torch.no_grad():
            tensor.copy_(staged)


def _op_of(op: Any) -> Op:
    known = {"SUM": Op.SUM, "AVG": Op.MEAN, "MIN": Op.MIN, "MAX": Op.MAX}
    for name, own in known.items():
        if op == getattr(dist.ReduceOp, name):
            return own
    names = [name for name in ("PRODUCT", "BAND", "BOR", "BXOR", "PREMUL_SUM")
             if hasattr(dist.ReduceOp, name) and op == getattr(dist.ReduceOp, name)]
    raise InvalidArgument(f"op: {names[0] if names else op} found, expected one of "
                          f"{', '.join(known)}")


# A process has one session, and the group that has it; there is no other once all have finished.
_open_group: Optional[ProcessGroup] = None
_has_finished = False


def _make(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> ProcessGroup:
    global _open_group
    if _open_group is not None:
        raise InvalidArgument(
            "new_group: a second group of the backend lockstep found, expected none: it has one, "
            'of all ranks of the job; name another backend, as in new_group(ranks, backend="gloo")')
    if _has_finished:
        raise InvalidArgument(
            "init_process_group: called after destroy_process_group, expected once: with that all "
            "ranks have said that all work is done")
    _open_group = ProcessGroup(rank, size, timeout)
    return _open_group


def _leave() -> None:
    global _open_group, _has_finished
    if _open_group is not None:
        group, _open_group = _open_group, None
        _has_finished = group.leave()


def _leaving(destroy: Any) -> Any:
    """torch's function, which tells backends nothing in some releases."""

    @functools.wraps(destroy)
    def destroy_process_group(group: Any = None) -> None:
        is_ours = group is None or group in (_open_group, dist.GroupMember.WORLD)
        destroy(group)
        if is_ours:
            _leave()

    return destroy_process_group


dist.destroy_process_group = _leaving(dist.destroy_process_group)
dist.distributed_c10d.destroy_process_group = dist.destroy_process_group
dist.Backend.register_backend("lockstep", _make)
