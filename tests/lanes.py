"""Which cases a lane of scripts/test.sh runs."""

import os


def long(case):
    """Marks a case, or a class of them, that takes many seconds and is a variation of one that the
    gate runs: only `scripts/test.sh --long` runs it, or LOCKSTEP_TEST_LONG=1 with its program."""
    return case if os.environ.get("LOCKSTEP_TEST_LONG") else None
