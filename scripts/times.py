#!/usr/bin/env python3
"""Prints how long the parts of the last scripts/test.sh or scripts/demo.sh took, as Markdown.

Usage: scripts/times.py [PRESET] [--rows COUNT]

It reads three files in build/: the stages of the script, ninja's log of the preset (default dev),
and ctest's log. ninja's log has the times of single steps, several of which run at once."""

import argparse
import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"


def stages():
    """(stage, seconds) of the last script, in order."""
    file = BUILD / "stages.log"
    marks = [line.split(" ", 1) for line in file.read_text().splitlines()] if file.exists() else []
    return [(text, int(end) - int(begin))
            for (begin, text), (end, _) in zip(marks, marks[1:])]


def room_of(output):
    """The folder of the sources that a step of ninja was for."""
    return re.sub(r"/(CMakeFiles|units)/.*", "", output) if "/" in output else "."


def build_steps(preset):
    """(compiled, linked): seconds by room, of the last time that each step was run."""
    compiled, linked, last = collections.Counter(), collections.Counter(), {}
    file = BUILD / preset / ".ninja_log"
    for line in file.read_text().splitlines()[1:] if file.exists() else []:
        begin, end, _, output, _ = line.split("\t")
        last[output] = (int(end) - int(begin)) / 1000
    for output, seconds in last.items():
        if output.endswith((".o", ".gch")):
            compiled[room_of(output)] += seconds
        elif not output.startswith(("CMakeFiles/", "/")) or output.endswith(".a"):
            linked[room_of(output)] += seconds
    return compiled, linked


def tests(preset):
    """Seconds of each test of the last run."""
    file = BUILD / preset / "Testing" / "Temporary" / "LastTest.log"
    text = file.read_text(errors="replace") if file.exists() else ""
    found = re.findall(r'^\d+/\d+ Test: (\S+)$(?:.*\n)*?^Test time = +([\d.]+) sec', text, re.M)
    return {name: float(seconds) for name, seconds in found}


def print_table(title, unit, figures, rows):
    """The largest rows of a table, and what the others come to."""
    ordered = sorted(figures.items(), key=lambda each: -each[1])
    print(f"\n## {title}\n\n| {unit} | seconds |\n|---|---|")
    for name, seconds in ordered[:rows]:
        print(f"| {name} | {seconds:.1f} |")
    if ordered[rows:]:
        rest = sum(seconds for _, seconds in ordered[rows:])
        print(f"| {len(ordered) - rows} others | {rest:.1f} |")
    print(f"| all | {sum(figures.values()):.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("preset", nargs="?", default="dev")
    parser.add_argument("--rows", type=int, default=20, help="most rows of each table (default 20)")
    options = parser.parse_args()
    if not (BUILD / options.preset).is_dir():
        parser.error(f"nothing is built in build/{options.preset}: run scripts/test.sh")
    compiled, linked = build_steps(options.preset)
    print(f"# Where the time goes\n\nThe last run of preset `{options.preset}`.")
    print("\n## Stages\n\n| stage | seconds |\n|---|---|")
    for text, seconds in stages():
        print(f"| {text} | {seconds} |")
    print_table("Compiling, by room", "room", compiled, options.rows)
    print_table("Linking and archiving, by room", "room", linked, options.rows)
    print_table("Tests", "test", tests(options.preset), options.rows)


if __name__ == "__main__":
    main()
