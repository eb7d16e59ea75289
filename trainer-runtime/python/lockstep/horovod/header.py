"""What ranks tell each other of a call before they make it, and what follows from that. Values in,
values out.

Horovod agrees on calls by their names, at a coordinator, in whatever order they come. Here all
ranks make the same calls in the same order, and each call is preceded by a header of every rank: so
a call that is another one elsewhere is an error with a sentence, on all ranks.
"""

from __future__ import annotations

import enum
import struct
import zlib
from typing import NamedTuple, Optional, Sequence

from lockstep.errors import MeetAgain, Mismatch, Status
from lockstep.library import DataType, Op

# Choice: numbers, and a sentence's half with a name of any sensible length.
HEADER_BYTES = 256
# kind, operation and type (-1: none), elements, length, CRC of the terms, bytes of text.
_NUMBERS = struct.Struct("<BbbxiqqIH")
_NONE = -1
# What a rank that has joined can take part in with zeros.
_SUMS = (Op.SUM, Op.MEAN)


class Kind(enum.IntEnum):
    """Of calls."""

    ALLREDUCE = 1
    ALLGATHER = 2
    BROADCAST = 3
    ALLTOALL = 4
    BARRIER = 5
    JOIN = 6
    SHUTDOWN = 7


class Call(NamedTuple):
    """One rank's part in a call. All but `length` has to be equal on all ranks."""

    kind: Kind
    name: str = ""
    what: str = ""  # type and shape, and whatever else the ranks have to agree on
    op: Optional[Op] = None
    data_type: Optional[DataType] = None
    root: int = _NONE
    elements: int = 0  # that are reduced
    length: int = 0  # rows or bytes that this rank gives

    def __str__(self) -> str:
        words = [self.kind.name.lower()]
        if self.name:
            words.append(f'"{self.name}"')
        if self.what:
            words.append(f"of {self.what}")
        if self.root != _NONE:
            words.append(f"from rank {self.root}")
        return " ".join(words)

    def encode(self) -> bytes:
        """Its header: HEADER_BYTES of them. A text that is too long ends in dots."""
        terms = repr(self._replace(length=0)).encode()
        text = str(self).encode()
        room = HEADER_BYTES - _NUMBERS.size
        if len(text) > room:
            text = text[: room - 3] + b"..."
        numbers = _NUMBERS.pack(
            self.kind, _NONE if self.op is None else self.op,
            _NONE if self.data_type is None else self.data_type, self.root, self.elements,
            self.length, zlib.crc32(terms), len(text))
        return (numbers + text).ljust(HEADER_BYTES, b"\0")


class Header(NamedTuple):
    """What a rank has told of its call."""

    kind: Kind
    op: Optional[Op]
    data_type: Optional[DataType]
    root: int
    elements: int
    length: int
    terms: int
    text: str


def decode(raw: bytes) -> Header:
    """Precondition: of `Call.encode`."""
    kind, op, data_type, root, elements, length, terms, text_bytes = _NUMBERS.unpack_from(raw)
    text = raw[_NUMBERS.size : _NUMBERS.size + text_bytes].decode(errors="replace")
    return Header(
        Kind(kind), None if op == _NONE else Op(op),
        None if data_type == _NONE else DataType(data_type), root, elements, length, terms, text)


class ShutDown(MeetAgain):
    """Some ranks have shut down where others call. `call`: "rank 1 calls ...", of one of these."""

    def __init__(self, gone: Sequence[int], call: str) -> None:
        # In the words that the operator knows: the end of whoever is left is no fault of its own.
        lost = ", ".join(f"rank {rank} is lost" for rank in gone)
        super().__init__(f"{lost}: shut down while {call}", Status.LOST_PEER)
        self.call = call


class Agreement(NamedTuple):
    """`headers` by rank, of calls that go together; `call`: that of the ranks which have not
    joined, None where all have."""

    headers: tuple[Header, ...]
    joined: frozenset[int]
    call: Optional[Header]


def agree(headers: Sequence[Header]) -> Agreement:
    """What comes of these calls; the same on all ranks.

    Errors: Mismatch (names two ranks and their calls); ShutDown.
    """
    joined = frozenset(rank for rank, one in enumerate(headers) if one.kind == Kind.JOIN)
    working = [rank for rank in range(len(headers)) if rank not in joined]
    if not working:
        return Agreement(tuple(headers), joined, None)
    first = working[0]
    call = headers[first]
    gone = [rank for rank in working if headers[rank].kind == Kind.SHUTDOWN]
    if gone and len(gone) < len(headers):
        other = next(rank for rank in range(len(headers)) if rank not in gone)
        raise ShutDown(gone, f"rank {other} calls {headers[other].text}")
    for rank in working:
        if headers[rank].terms != call.terms:
            raise Mismatch(
                f"rank {first} calls {call.text}, rank {rank} calls {headers[rank].text}: all "
                "ranks must make the same calls in the same order", Status.MISMATCH)
    if joined and (call.kind != Kind.ALLREDUCE or call.op not in _SUMS):
        raise Mismatch(
            f"rank {first} calls {call.text} after rank {min(joined)} has called join; after that, "
            "other ranks may call only allreduce with Average or Sum", Status.MISMATCH)
    return Agreement(tuple(headers), joined, call)
