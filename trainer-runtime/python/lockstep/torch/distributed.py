"""The backend "lockstep" of torch.distributed. Import this module, then call
`torch.distributed.init_process_group("lockstep")`: DistributedDataParallel then sums gradients
through liblockstep.

In the group of all ranks, liblockstep makes all-reduce, reduce-scatter, broadcast, all-gather and
barrier; these calls return when they are done. torch's gloo makes the other calls of this group
(gather, scatter, send, receive, all-to-all) and all calls of groups from `new_group`. gloo needs
tensors in the host's memory.

All ranks call `destroy_process_group` when all work is done. If a rank is lost, the other ranks end
with exit code 75, and the gang restarts. With a `Job`, the other ranks continue instead.
"""

from __future__ import annotations

import collections
import datetime
import functools
import inspect
import sys
from typing import Any, Callable, NoReturn, Optional

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
    """The group of all ranks of the job. Calls of liblockstep copy tensors from GPUs to the host
    and back. Calls of gloo refuse tensors on GPUs."""

    def __init__(self, store: Any, rank: int, size: int, timeout: datetime.timedelta) -> None:
        """Opens the session and meets. Errors: InvalidArgument (a group of some ranks), those of
        `Session` and of gloo; the session is closed then."""
        self._is_whole = True
        try:
            super().__init__(store, rank, size)
        except TypeError:  # before 2.15: a group that Python makes has neither name nor device
            super().__init__(rank, size)
            self._is_whole = False
        self._timeout = timeout.total_seconds()
        self._works: collections.deque[_Work] = collections.deque(maxlen=_WORKS_MAX)
        self._session = Session(plan="torch.distributed")
        try:
            meeting = self._session.meet(False, 0, self._timeout)
            if (meeting.rank, meeting.size) != (rank, size):
                raise InvalidArgument(
                    f"group: rank {rank} of {size} found, expected {meeting.rank} of "
                    f"{meeting.size}; the first group of the backend lockstep must have all ranks")
            self._gloo = _gloo_group(store, rank, size, timeout)
            if self._is_whole:  # what torch calls by a group's name or device, as DTensor does
                kind = dist.ProcessGroup.BackendType.CUSTOM
                self._set_default_backend(kind)
                self._register_backend(torch.device("cpu"), kind, self._gloo)
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
            print(f"lockstep: the group is destroyed on this rank only: {lost}", file=sys.stderr,
                  flush=True)
        finally:
            self._session.close()
        return ends_well

    def getBackendName(self) -> str:
        return "lockstep"

    @property
    def group_name(self) -> Any:
        """Of torch. Errors: InvalidArgument (this release gives none)."""
        if not self._is_whole:
            raise InvalidArgument(
                f"group_name: torch {torch.__version__} found, expected 2.15 or newer, because "
                "DTensor, FSDP2 and torch.compile find groups by their names; with older releases "
                "use new_group(list(range(get_world_size()))), which has a name")
        return super().group_name

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

    # torch 2.15 renamed the calls on whole tensors. A call that is missing here goes to gloo, and
    # can block for good: torch keeps Python's lock meanwhile, and a thread of gloo's waits for it.
    def all_gather_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> _Work:
        output.copy_(self._gather(tensor).reshape(output.shape))
        return self._done([output])

    def all_gather_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> _Work:
        for output, tensor in zip(outputs, inputs):
            self.all_gather_single(output, tensor)
        return self._done(outputs)

    _allgather_base = all_gather_single  # type: ignore[assignment]
    allgather_into_tensor_coalesced = all_gather_single_coalesced  # type: ignore[assignment]

    def reduce_scatter(  # type: ignore[override]
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None
    ) -> _Work:
        for output, blocks in zip(outputs, inputs):
            self._scatter(output, torch.stack(blocks), opts)
        return self._done(outputs)

    def reduce_scatter_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> _Work:
        self._scatter(output, tensor.reshape(self._session.size, *output.shape), opts)
        return self._done([output])

    def reduce_scatter_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> _Work:
        for output, tensor in zip(outputs, inputs):
            self.reduce_scatter_single(output, tensor, opts)
        return self._done(outputs)

    _reduce_scatter_base = reduce_scatter_single  # type: ignore[assignment]
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced  # type: ignore[assignment]

    def barrier(self, opts: Any = None) -> _Work:
        self._try("barrier", self._timeout)
        return self._done([])

    def gather(self, *arguments: Any) -> Any:
        return self._gloo.gather(*arguments)

    def scatter(self, *arguments: Any) -> Any:
        return self._gloo.scatter(*arguments)

    def send(self, *arguments: Any) -> Any:
        return self._gloo.send(*arguments)

    def recv(self, *arguments: Any) -> Any:
        return self._gloo.recv(*arguments)

    def recv_anysource(self, *arguments: Any) -> Any:
        return self._gloo.recv_anysource(*arguments)

    def all_to_all_single(self, *arguments: Any) -> Any:
        return self._gloo.alltoall_base(*arguments)

    alltoall_base = all_to_all_single  # type: ignore[assignment]

    def alltoall(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> _Work:
        """As one call on all elements side by side, which is all that gloo has."""
        flat = [torch.cat([one.reshape(-1) for one in tensors]) for tensors in (outputs, inputs)]
        counts = [[one.numel() for one in tensors] for tensors in (outputs, inputs)]
        self._gloo.alltoall_base(*flat, *counts, dist.AllToAllOptions()).wait()
        for output, received in zip(outputs, torch.split(flat[0], counts[0])):
            output.copy_(received.reshape(output.shape))
        return self._done(outputs)

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
    _end_by(exit_code, lambda text: text.startswith("SystemExit"), is_told=False)
    sys.exit(exit_code)


def _end_by(exit_code: int, is_so: Callable[[str], bool], is_told: bool) -> None:
    """Has a RuntimeError of such a text which nobody answers end the process so, and be told where
    `is_told`."""
    hook = sys.excepthook

    def ending(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        ends_so = isinstance(error, RuntimeError) and is_so(str(error))
        if is_told or not ends_so:
            hook(kind, error, trace)
        if ends_so:
            sys.exit(exit_code)

    sys.excepthook = ending


def _gloo_group(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Any:
    """gloo's group of these ranks, which all of them make. What it says of a peer that is gone, or
    that does not come in time, ends the process as any loss does."""
    global _hears_gloo
    if not _hears_gloo:
        _hears_gloo = True
        _end_by(MeetAgain.exit_code, lambda text: _OF_GLOO in text, is_told=True)
    torchs = dist.distributed_c10d
    return torchs.ProcessGroupGloo(
        torchs.PrefixStore("gloo", store), rank, size, timeout=timeout)


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


# In what gloo says of its connections: the place in its source.
_OF_GLOO = "gloo/transport"
_hears_gloo = False

# A process has one session, and the group that has it; there is no other once all have finished.
_open_group: Optional[ProcessGroup] = None
_has_finished = False


def _make(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Any:
    global _open_group
    if _open_group is not None:
        return _gloo_group(store, rank, size, timeout)
    if _has_finished:
        raise InvalidArgument(
            "init_process_group: called after destroy_process_group, which ends the work of all "
            "ranks; call init_process_group only once in each process")
    _open_group = ProcessGroup(store, rank, size, timeout)
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
# Releases that know devices warn where none is named.
_register: Callable[..., None] = dist.Backend.register_backend
_knows_devices = "devices" in inspect.signature(_register).parameters
_register("lockstep", _make, **({"devices": ["cpu", "cuda"]} if _knows_devices else {}))
