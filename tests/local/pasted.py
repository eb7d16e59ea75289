"""Commands that pages and examples show, run as they are pasted, and what they say one sees."""

import itertools
import os
import re
import shutil
import subprocess

from harness import BIN, REPOSITORY, LocalTest

EXAMPLES = REPOSITORY / "examples"
SESSION_SECONDS_MAX = 300
# What differs from run to run: times, rates, process ids and, by the processor, the last digits.
_VARYING = re.compile(
    r"\d+\.\d+ ?%|\d+(\.\d+)? (s|samples/s)\b|\b(detect|spawn|engine|loss|accuracy) \d+\.\d+")


def settled(text):
    """A line without what varies, with single blanks."""
    return " ".join(_VARYING.sub("#", text).split())


def unprinted(wanted, output):
    """Those lines of `wanted` that begin no line of the output, but for what varies."""
    lines = [settled(line) for line in output.splitlines()]
    return [line for line in wanted.splitlines() if not any(
        each.startswith(settled(line).removesuffix("+ ...")) for each in lines)]


def head(example):
    """(commands, what one sees) that the first comment of an example's manifest shows, indented."""
    comment = itertools.takewhile(
        lambda line: line.startswith("#"), (EXAMPLES / example).read_text().splitlines())
    commands, seen = [], []
    part = commands
    for line in comment:
        if line.startswith("#   "):
            part.append(line[4:] + "\n")
        elif line.startswith("# You see"):
            part = seen
    return "".join(commands), "".join(seen)


class PastedTest(LocalTest):
    """A shell in a folder that has what a clone has for those who paste."""

    engine = None

    def run_shell(self, commands):
        """What the commands print, with our programs in PATH."""
        shutil.copytree(EXAMPLES, self.scratch / "examples",
                        ignore=shutil.ignore_patterns("__pycache__"))
        ran = subprocess.run(
            ["bash", "-c", f"set -eu -o pipefail\n{commands}"], cwd=self.scratch, text=True,
            timeout=SESSION_SECONDS_MAX, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False,
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"})
        self.assertEqual(ran.returncode, 0, ran.stdout)
        return ran.stdout

    def assert_printed(self, wanted, output):
        self.assertEqual(unprinted(wanted, output), [], output)
