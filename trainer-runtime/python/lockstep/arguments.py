"""Checks arguments before the library gets them, so that errors name the argument. ctypes would not
name it, and would cut off a number that is too large."""

from __future__ import annotations

import math
import operator
import os
import re
from typing import Any

from lockstep.errors import InvalidArgument

# A pathlib.Path of one has lost a slash.
_URL = re.compile("[A-Za-z][-+.A-Za-z0-9]+:/")

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1


def whole_number(
    name: str, value: Any, least: int = 0, most: int = INT64_MAX, or_else: str = ""
) -> int:
    """`value` as an int, from `least` to `most`. `or_else`: what else it might be.

    Errors: InvalidArgument, which calls it `name`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        is_large = number is not None and number > most
        limits = f"from {least} to {most}" if is_large else f"from {least}"
        raise InvalidArgument(f"{name}: {value!r} found, expected a whole number {limits}{or_else}")
    return number


def real_number(name: str, value: Any) -> float:
    """`value` as a float, which may be NaN. Errors: InvalidArgument, which calls it `name`."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"{name}: {value!r} found, expected a number") from None


def seconds(name: str, value: Any) -> float:
    """A time limit. Errors: InvalidArgument, which calls it `name`."""
    number = real_number(name, value)
    if not 0 < number < math.inf:
        raise InvalidArgument(f"{name}: {value!r} found, expected a number of seconds above 0")
    return number


def text(name: str, value: Any) -> str:
    """`value` where it is words. Errors: InvalidArgument, which calls it `name`."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{name}: {value!r} found, expected a string (str)")
    return value


def folder(name: str, value: Any) -> str:
    """`value` as a path. Errors: InvalidArgument, which calls it `name`."""
    try:
        path = os.fspath(value)
    except TypeError:
        path = None
    if not isinstance(path, str) or not path:
        raise InvalidArgument(f"{name}: {value!r} found, expected the path of a folder")
    if _URL.match(path):
        raise InvalidArgument(
            f"{name}: {value!r} found, expected the path of a folder, not a URL: mount the storage "
            "into the pods")
    return path


def truth(name: str, value: Any) -> bool:
    """`value` where it is True or False. Errors: InvalidArgument, which calls it `name`."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name}: {value!r} found, expected True or False")
    return value
