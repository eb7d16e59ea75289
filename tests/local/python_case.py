"""Programs in Python on the package `lockstep`, as it lies in the repository."""

import json
import os
import subprocess

from harness import BIN, REPOSITORY

PACKAGE = REPOSITORY / "trainer-runtime" / "python"
# Debian's, which has its NumPy and torch; another one with both: scripts/test.sh --python.
PYTHON = os.environ.get("LOCKSTEP_TEST_PYTHON", "/usr/bin/python3")


def python_words(script, *arguments):
    """The words that run a script with the package."""
    return ["/usr/bin/env", f"PYTHONPATH={PACKAGE}",
            f"LOCKSTEP_LIBRARY={BIN / 'liblockstep.so.1'}", "OMP_NUM_THREADS=1",
            PYTHON, "-B", str(script), *arguments]


def can_import(*modules):
    """Whether the interpreter of the tests has them."""
    words = f"import importlib; [importlib.import_module(m) for m in {json.dumps(modules)}]"
    return subprocess.run([PYTHON, "-c", words], capture_output=True, check=False).returncode == 0
