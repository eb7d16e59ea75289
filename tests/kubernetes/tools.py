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
def _ask_script(question):
    """The answer of scripts/cluster-tools.sh, about the Kubernetes that the tests run against:
    LOCKSTEP_TEST_KUBERNETES, or the script's default."""
    command = [REPOSITORY / "scripts" / "cluster-tools.sh", question]
    if version := os.environ.get("LOCKSTEP_TEST_KUBERNETES"):
        command += ["--kubernetes", version]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip())
    return run.stdout.strip()


def tools_folder():
    return pathlib.Path(_ask_script("--path"))


def kubernetes_version():
    """The version of Kubernetes in test clusters: (1, 36, 3)."""
    return tuple(map(int, _ask_script("--version").split(".")))


def tool(name):
    """The path of one of the programs that scripts/cluster-tools.sh builds."""
    return tools_folder() / name


def require_tools(*names):
    """Probe: skips the calling test where scripts/cluster-tools.sh has not built these."""
    missing = [name for name in names if not tool(name).exists()]
    if missing:
        raise unittest.SkipTest(f"not built by scripts/cluster-tools.sh: {', '.join(missing)}")
