#!/usr/bin/env python3
"""Measures this operator beside that of another work tree, taking turns: each turn on a control
plane of its own, with that tree's definitions, rights and flags (see README.md).

    git worktree add ../before COMMIT && cmake ... # as here, target lockstep-operator
    tests/bench/operator/pair.py ../before [--preset release] [--rounds 4]"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import run

REPLACEMENTS = 3  # a turn; each takes some seconds, mostly of waiting
FIGURES = (  # case, its figure, and the unit
    ("A", "created", "s"), ("A", "running", "s"), ("A", "CPU until created", "s"),
    ("A", "CPU until running", "s"), ("A", "peak RSS", "MiB"),
    ("B", "created", "s"), ("B", "running", "s"), ("B", "CPU until created", "s"),
    ("B", "CPU until running", "s"), ("C", "replaced", "s"), ("idle", "resident", "MiB"),
)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("--preset", default="release")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--turn", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def turn(tree, preset):
    """Measures the operator of one tree; the figures by case, of the median of replacements."""
    run.load_harness(tree / "build" / preset / "bin", tree)
    with run.ControlPlane() as plane:
        bench = run.make_bench(plane)
        figures = {"idle": {"resident": bench.program.resident_mib()}}
        figures["A"] = bench.large_job()
        figures["B"] = bench.many_jobs()
        replaced = [bench.replacement()["replaced"] for _ in range(REPLACEMENTS)]
        figures["C"] = {"replaced": statistics.median(replaced)}
    return figures


def take_turn(tree, preset):
    """In a process of its own: modules of both trees are called alike."""
    done = subprocess.run(
        [sys.executable, __file__, tree.resolve(), "--preset", preset, "--turn"],
        check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(options):
    print(f"{os.cpu_count()} cores shared by everything; load {os.getloadavg()[0]:.1f}", flush=True)
    before, now = [], []
    for number in range(options.rounds):
        sides = [(before, options.before), (now, run.REPOSITORY)]
        for figures, tree in sides if number % 2 == 0 else reversed(sides):
            figures.append(take_turn(tree, options.preset))
        print(f"round {number + 1} of {options.rounds}: load {os.getloadavg()[0]:.1f}", flush=True)
    for case, key, unit in FIGURES:
        pairs = [(one[case][key], other[case][key]) for one, other in zip(before, now)]
        ratio = statistics.median(other / one for one, other in pairs)
        print(f"{case:4} {key:18} before " + " ".join(f"{one:.3f}" for one, _ in pairs) +
              "   now " + " ".join(f"{other:.3f}" for _, other in pairs) +
              f" {unit}   now / before, median {ratio:.3f}")


if __name__ == "__main__":
    OPTIONS = parse_arguments()
    if OPTIONS.turn:
        print(json.dumps(turn(OPTIONS.before, OPTIONS.preset)))
    else:
        compare(OPTIONS)
