"""What Horovod's calls are given, whatever holds arrays, and what is refused of it."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence

from lockstep.errors import InvalidArgument
from lockstep.horovod.process import current
from lockstep.library import Op


class ReduceOp:
    """The operation of a reduction, with Horovod's name. `own`: the library's operation."""

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


class Reduction(NamedTuple):
    """How arrays are reduced: multiplied by `prescale` before and by `postscale` after it."""

    op: ReduceOp = Average
    prescale: float = 1.0
    postscale: float = 1.0

    @property
    def is_scaled(self) -> bool:
        return (self.prescale, self.postscale) != (1.0, 1.0)

    def check(self, word: str, is_float: bool, name: str) -> None:
        """Of elements that are called `word`. Errors: InvalidArgument."""
        if self.op is Average and not is_float:
            raise InvalidArgument(
                f"{name}: Average of {word} found, expected Sum for whole numbers")
        if self.is_scaled and not is_float:
            raise InvalidArgument(
                f"{name}: {word} with a scale factor found, expected floating-point numbers")

    def __str__(self) -> str:
        scales = f" scaled by {self.prescale} and {self.postscale}"
        return f"{self.op}{scales if self.is_scaled else ''}"


class ProcessSet:
    """A set of ranks for collective calls. The only set is that of all ranks."""

    process_set_id = 0

    def included(self) -> bool:
        """Whether this rank belongs to the set."""
        return True

    def rank(self) -> int:
        """The rank of this process."""
        return current().rank

    def size(self) -> int:
        """The number of ranks of the job."""
        return current().size


global_process_set = ProcessSet()


def op_of(op: Optional[ReduceOp], average: Optional[bool] = None) -> ReduceOp:
    """The operation that is asked for; Average by default. Errors: InvalidArgument."""
    if op is not None and average is not None:
        raise InvalidArgument("op and average: cannot be used together; set only op")
    if average is not None:
        return Average if average else Sum
    if op is None:
        return Average
    if op not in _OPS:
        names = ", ".join(str(one) for one in _OPS)
        raise InvalidArgument(f"op: {op!r} found, expected one of {names}")
    return op


def check_elements(
    what: str, word: str, lies_flat: bool, name: Optional[str], expected: str = "numbers or bool"
) -> None:
    """That `what` can be done to elements that are called `word`; `lies_flat`: they are in their
    array itself, as strings and objects are not. Errors: InvalidArgument (they are not)."""
    if not lies_flat:
        call = f"{name}: {what}" if name else what
        raise InvalidArgument(
            f"{call} of {word} found, expected {expected}: for other objects use broadcast_object "
            "or allgather_object")


def check_gradients(
    op: ReduceOp,
    compression: object,
    offered: Sequence[object],
    predivide_factor: float,
    num_groups: int,
    groups: object,
) -> None:
    """How gradients are to travel. `offered`: the values of `compression` that are, without any and
    to float16. Errors: InvalidArgument."""
    if num_groups != 0 or groups is not None:
        raise InvalidArgument(
            f"num_groups, groups: {num_groups}, {groups!r} found, expected neither: gradients are "
            "always reduced together")
    if op_of(op) not in (Average, Sum):
        raise InvalidArgument(f"op: {op!r} found, expected Average or Sum")
    if compression not in offered:
        raise InvalidArgument(
            f"compression: {compression!r} found, expected Compression.none or Compression.fp16")
    if predivide_factor != 1.0 and op is not Average:
        raise InvalidArgument(f"gradient_predivide_factor: op {op!r} found, expected op Average")
    if predivide_factor <= 0:
        raise InvalidArgument(
            f"gradient_predivide_factor: {predivide_factor} found, expected above 0")


def check_passes(passes: object) -> int:
    """Backward passes for each step. Errors: InvalidArgument."""
    if not isinstance(passes, int) or passes < 1:
        raise InvalidArgument(f"backward_passes_per_step: {passes!r} found, expected 1 or more")
    return passes


def rows_text(word: str, shape: Sequence[int], name: str) -> str:
    """Any number of rows of such a shape, of elements that are called `word`, for sentences.
    Errors: InvalidArgument (there are no rows, or nothing is in them)."""
    if len(shape) == 0 or 0 in shape[1:]:
        raise InvalidArgument(
            f"{name}: shape {list(shape)} found, expected rows with at least one element")
    return f"{word} [{', '.join(['any', *(str(length) for length in shape[1:])])}]"


def own_share(rows: int) -> slice:
    """This rank's of so many rows: equally many on all ranks, and what is left over one each on the
    first."""
    here = current()
    own, rest = divmod(rows, here.size)
    begin = here.rank * own + min(here.rank, rest)
    return slice(begin, begin + own + (here.rank < rest))


def splits_of(given: Any, rows: int, name: str) -> list[int]:
    """Rows for each rank, of `rows` in all. `given`: whole numbers as lists have them; None:
    equally many. Errors: InvalidArgument."""
    size = current().size
    if given is None:
        if rows % size != 0:
            raise InvalidArgument(
                f"{name}: {rows} rows found, expected a multiple of {size}, or splits")
        return [rows // size] * size
    is_list = isinstance(given, list) and all(isinstance(one, int) for one in given)
    if not is_list or len(given) != size or sum(given) != rows or min(given) < 0:
        raise InvalidArgument(
            f"{name}: splits {given} found, expected {size} numbers from 0 whose sum is {rows}, "
            "the number of rows")
    return list(given)


def check_process_set(process_set: Optional[ProcessSet]) -> None:
    """Errors: InvalidArgument (not that of all ranks)."""
    if process_set is not None and process_set is not global_process_set:
        raise InvalidArgument(
            f"process_set: {process_set!r} found, expected global_process_set: it is the only set, "
            "of all ranks")


def check_root(root_rank: int, name: str) -> None:
    """Errors: InvalidArgument (no such rank)."""
    if not 0 <= root_rank < current().size:
        raise InvalidArgument(
            f"{name}: root_rank {root_rank} found, expected 0 to {current().size - 1}")
