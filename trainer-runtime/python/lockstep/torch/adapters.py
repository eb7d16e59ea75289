"""What the classes `Recovers` of several trainers share."""

from __future__ import annotations

import importlib
from typing import Any, Iterable, NoReturn

from lockstep.errors import InvalidArgument


def check_parts(package: str, expected: str, parts: Iterable[tuple[Any, Iterable[str]]]) -> None:
    """`parts`: classes of the trainer, and the names in them that ours replace or call. Errors:
    InvalidArgument (this version of `package` lacks one; names it)."""
    for owner, names in parts:
        missing = [name for name in names if not hasattr(owner, name)]
        if missing:
            version = importlib.import_module(package).__version__
            raise InvalidArgument(
                f"{package}: {version} found, whose {owner.__name__} has no {missing[0]}; "
                f"expected {expected}")


def refuse(module: str, name: str, found: object, instead: str) -> NoReturn:
    """Errors: InvalidArgument."""
    raise InvalidArgument(
        f"{name}: {found} found, which {module}.Recovers cannot recover; expected {instead}. "
        "Without Recovers, the gang restarts from the Trainer's newest checkpoint")
