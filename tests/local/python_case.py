"""Programs in Python on the package `lockstep`: as it lies in the repository, or, with
LOCKSTEP_TEST_PYTHON, as it is installed for that interpreter (tests/local/python.sh). One that has
no package gets that of the repository."""

import functools
import json
import os
import subprocess
import tomllib

from harness import BIN, REPOSITORY

PACKAGE = REPOSITORY / "trainer-runtime" / "python"
_INSTALLED = os.environ.get("LOCKSTEP_TEST_PYTHON")
# Debian's, which has its NumPy and torch.
PYTHON = _INSTALLED or "/usr/bin/python3"


@functools.cache
def can_import(*modules):
    """Whether the interpreter of the tests has them. None is loaded but the packages that another
    one is in: torch takes 2 s of a core."""
    words = ("import importlib.util, sys; "
             f"sys.exit(not all(importlib.util.find_spec(m) for m in {json.dumps(modules)}))")
    return subprocess.run([PYTHON, "-c", words], capture_output=True, check=False).returncode == 0


def entry_points(folder):
    """Of the package where it is not installed: the variables, as NAME=VALUE, with which others
    find it by its entry points. `folder` is theirs."""
    if "PYTHONPATH" not in VARIABLES:
        return []
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    metadata = folder / "lockstep_training-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Name: {project['name']}\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text("".join(
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items())
        for group, points in project["entry-points"].items()))
    return [f"PYTHONPATH={VARIABLES['PYTHONPATH']}:{folder}"]


def can_make_backends():
    """Whether the interpreter of the tests has a torch whose backends Python can make."""
    words = "import torch; torch._C._distributed_c10d.Backend(0, 1)"
    return subprocess.run([PYTHON, "-c", words], capture_output=True, check=False).returncode == 0


# Debian's torch is linked with OpenCV and FFmpeg, and loading them takes a quarter of every import.
# Nothing here calls them: empty libraries stand for them, as they do for the engine.
PLACEHOLDERS = BIN / "lockstep-engine-placeholders"
# One thread for each rank. What is installed has its own library.
VARIABLES = {"OMP_NUM_THREADS": "1"} if _INSTALLED and can_import("lockstep") else {
    "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PACKAGE),
    "LOCKSTEP_LIBRARY": str(BIN / "liblockstep.so.1")}
if not _INSTALLED:
    VARIABLES["LD_LIBRARY_PATH"] = str(PLACEHOLDERS)
# The words that run what follows them, with the package.
PYTHON_WORDS = ["/usr/bin/env", *(f"{name}={value}" for name, value in VARIABLES.items()), PYTHON,
                "-B"]


def python_words(script, *arguments):
    """The words that run a script with the package."""
    return [*PYTHON_WORDS, str(script), *arguments]
