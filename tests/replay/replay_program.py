"""Runs the built `lockstep-replay`."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build/dev/bin"))
TIMEOUT_SECONDS = 300


def run(*words, stdin=None):
    """(exit code, what it printed, what it complained of)"""
    done = subprocess.run([BIN / "lockstep-replay", *map(str, words)], text=True, input=stdin,
                          capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    return done.returncode, done.stdout, done.stderr


def report(*words, stdin=None):
    """The JSON object of a replay that succeeds."""
    exit_code, output, complaint = run(*words, stdin=stdin)
    if exit_code != 0:
        raise AssertionError(f"{words}: exit code {exit_code}: {complaint}")
    return json.loads(output)
