"""Where the programs of the test clusters are."""

import functools
import os
import pathlib
import subprocess
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(
    os.environ.get("LOCKSTEP_BIN", REPOSITORY / "build" / "dev" / "bin")
).resolve()
# These programs are in Go and live for seconds or minutes: they need less of the cores when they
# collect garbage seldom, and memory is there.
os.environ.setdefault("GOGC", "400")


@functools.cache
def tools_folder():
    script = REPOSITORY / "scripts" / "cluster-tools.sh"
    run = subprocess.run([script, "--path"], check=True, capture_output=True, text=True)
    return pathlib.Path(run.stdout.strip())


def tool(name):
    """The path of one of the programs that scripts/cluster-tools.sh builds."""
    return tools_folder() / name


def require_tools(*names):
    """Probe: skips the calling test where scripts/cluster-tools.sh has not built these."""
    missing = [name for name in names if not tool(name).exists()]
    if missing:
        raise unittest.SkipTest(f"not built by scripts/cluster-tools.sh: {', '.join(missing)}")
