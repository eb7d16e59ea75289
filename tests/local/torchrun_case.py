"""Commands that start ranks of torchrun_program.py by torchrun. LOCKSTEP_TEST_PYTHON names the
interpreter of another torch than Debian's."""

import pathlib
import shlex
import unittest

from harness import command_manifest
from python_case import PYTHON, VARIABLES, can_import

PROGRAM = pathlib.Path(__file__).with_name("torchrun_program.py")
PROCESSES = 2

LIBRARIES = " ".join(f"{name}={value}" for name, value in VARIABLES.items()
                     if name == "LD_LIBRARY_PATH")
# Debian's torch 1.13 does not start as torchrun under Python 3.11, whose flags leave out their
# zero. What it writes of its ranks it leaves behind.
TORCHRUN = f"""#!/usr/bin/env -S {LIBRARIES} {PYTHON}
import os.path
import sys
import tempfile
tempfile.tempdir = os.path.dirname(__file__)
from torch.distributed.elastic.multiprocessing import api
of_text = api.Std.from_str
api.Std.from_str = classmethod(lambda cls, text: of_text(text) or cls.NONE)
from torch.distributed.run import main
sys.exit(main())
"""


@unittest.skipUnless(can_import("torch"), "no torch is installed for " + PYTHON)
class TorchrunCase(unittest.TestCase):
    """Words that start torchrun, beside a scratch folder."""

    def setUp(self):
        super().setUp()
        self.torchrun = self.scratch / "torchrun"
        self.torchrun.write_text(TORCHRUN)
        self.torchrun.chmod(0o755)

    def words(self, deed="none:none", options=()):
        """Ranks that compute."""
        return [str(self.torchrun), *options, str(PROGRAM), str(self.scratch), deed]

    def idle_words(self, deed="none:none", options=()):
        """Ranks that load no torch, and wait for what one of them does, if any does something."""
        return [*self.words(deed, options), "idle"]

    def script(self, words):
        """A program of the image, of which the manifest says nothing but its name."""
        path = self.scratch / "train.sh"
        path.write_text(f"#!/bin/sh\nset -e\necho preparing\n{shlex.join(words)}\necho done\n")
        path.chmod(0o755)
        return [str(path)]

    def manifest(self, command, launcher=None, workers=2):
        role = f"replicas: {workers}\n    processes: {PROCESSES}"
        role += f"\n    launcher: {launcher}" if launcher else ""
        return command_manifest(command, name="ranks", workers=workers, backoff_limit=2).replace(
            f"replicas: {workers}", role)


def in_shell(words):
    """A script in the manifest."""
    return ["bash", "-c", "set -e; echo preparing\n" + shlex.join(words) + "\necho done"]
