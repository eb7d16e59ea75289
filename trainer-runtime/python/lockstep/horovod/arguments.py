"""What Horovod's calls are given, whatever holds arrays, and what is refused of it."""

from __future__ import annotations

from typing import Optional

from lockstep.errors import InvalidArgument
from lockstep.horovod.process import current
from lockstep.library import Op


class ReduceOp:
    """What a reduction does, by Horovod's name. `own`: as the library calls it."""

    def __init__(self, name: str, own: Optional[Op]) -> None:
        self.name = name
        self.own = own

    def __repr__(self) -> str:
        return self.name


Average = ReduceOp("Average", Op.MEAN)
Sum = ReduceOp("Sum", Op.SUM)
Min = ReduceOp("Min", Op.MIN)
Max = ReduceOp("Max", Op.MAX)
Product = ReduceOp("Product", None)  # by gathering
Adasum = ReduceOp("Adasum", None)  # refused
_OPS = (Average, Sum, Min, Max, Product)


class ProcessSet:
    """Ranks that call together. There is one set, of all ranks."""

    process_set_id = 0

    def included(self) -> bool:
        """Whether this rank is one of them."""
        return True

    def rank(self) -> int:
        """Of this process."""
        return current().rank

    def size(self) -> int:
        """Ranks of the job."""
        return current().size


global_process_set = ProcessSet()


def op_of(op: Optional[ReduceOp], average: Optional[bool] = None) -> ReduceOp:
    """The operation that is asked for; Average by default. Errors: InvalidArgument."""
    if op is not None and average is not None:
        raise InvalidArgument("op and average: both found, expected op only")
    if average is not None:
        return Average if average else Sum
    if op is None:
        return Average
    if op not in _OPS:
        names = ", ".join(str(one) for one in _OPS)
        raise InvalidArgument(f"op: {op!r} found, expected one of {names}")
    return op


def check_process_set(process_set: Optional[ProcessSet]) -> None:
    """Errors: InvalidArgument (not that of all ranks)."""
    if process_set is not None and process_set is not global_process_set:
        raise InvalidArgument(
            f"process_set: {process_set!r} found, expected global_process_set: there is one, of "
            "all ranks")


def check_root(root_rank: int, name: str) -> None:
    """Errors: InvalidArgument (no such rank)."""
    if not 0 <= root_rank < current().size:
        raise InvalidArgument(
            f"{name}: root_rank {root_rank} found, expected 0 to {current().size - 1}")
