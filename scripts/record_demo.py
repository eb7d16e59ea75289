#!/usr/bin/env python3
"""Records a training that loses a worker, and draws its real output as an SVG.

Runs `lockstep run examples/mnist.yaml` several times, kills worker 1 in each run, and keeps the run
with the median time from the kill to the next step. Every line of the picture is a line of that
run's output, and appears after as many seconds as it did in the run. The script leaves out the
path of its temporary folder, and nothing else.

Usage: scripts/record_demo.py [--bin build/release/bin] [--runs 5] [--output docs/demo.svg]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from xml.sax.saxutils import escape

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
COMMAND = (
    "run", "examples/mnist.yaml", "--set", "spec.training.epochs=2",
    "--chaos", "kill=worker-1@step=100",
)
RUN_SECONDS_MAX = 300

# Sizes in pixels; the width of a character is that of common monospaced fonts, 0.6 of their size.
FONT_SIZE = 13
CHARACTER_WIDTH = 7.8
LINE_HEIGHT = 18
MARGIN = 16

STYLE = """
text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d0d7de; }
.typed { fill: #7ee787; }
.harm { fill: #ff7b72; }
.again { fill: #79c0ff; }
.appears { animation: appear 0.01s backwards; }
@keyframes appear { from { opacity: 0; } }
@media (prefers-reduced-motion: reduce) { .appears { animation: none; } }
"""


@dataclass(frozen=True)
class Line:
    """One line of output, and when it came, in seconds since the command was started."""

    seconds: float
    text: str


@dataclass(frozen=True)
class Recording:
    """One run: its lines, and the time from the kill to the next step."""

    lines: tuple
    recovery_seconds: float


def record(binary_folder, folder):
    """Runs the command in the repository, with its run directory in `folder`."""
    summary = folder / "summary.json"
    started = time.monotonic()
    lines = []
    with subprocess.Popen(
        [binary_folder / "lockstep", *COMMAND, "--dir", folder / "run", "--summary", summary],
        cwd=REPOSITORY, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:
        for text in process.stdout:
            shown = text.rstrip("\n").replace(f"{folder}/", "")
            lines.append(Line(time.monotonic() - started, shown))
            if time.monotonic() - started > RUN_SECONDS_MAX:
                process.kill()
                raise RuntimeError(f"the run took more than {RUN_SECONDS_MAX} s")
    if process.returncode != 0:
        raise RuntimeError(f"the run ended with {process.returncode}: {lines[-1].text}")
    recoveries = json.loads(summary.read_text())["recoveries"]
    if len(recoveries) != 1:
        raise RuntimeError(f"expected 1 recovery in the summary, found {len(recoveries)}")
    return Recording(tuple(lines), recoveries[0]["killToNextStepSeconds"])


def median_recording(recordings):
    """The recording with the median recovery; of an even number, the slower of the two."""
    middle = statistics.median_high(one.recovery_seconds for one in recordings)
    return next(one for one in recordings if one.recovery_seconds == middle)


def line_class(text):
    if " chaos: " in text or "killed by SIGKILL" in text:
        return "harm"
    if "training again after" in text:
        return "again"
    return "said"


def draw(recording):
    """The SVG as text."""
    typed = Line(0.0, "$ lockstep " + " ".join(COMMAND))
    lines = [typed, *recording.lines]
    width = round(2 * MARGIN + CHARACTER_WIDTH * max(len(line.text) for line in lines))
    height = 2 * MARGIN + LINE_HEIGHT * len(lines)
    rows = []
    for index, line in enumerate(lines):
        y = MARGIN + FONT_SIZE + index * LINE_HEIGHT
        kind = "typed" if index == 0 else f"{line_class(line.text)} appears"
        delay = "" if index == 0 else f' style="animation-delay: {line.seconds:.2f}s"'
        rows.append(
            f'<text x="{MARGIN}" y="{y}" class="{kind}"{delay} xml:space="preserve">'
            f"{escape(line.text)}</text>"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n'
        "<title>A training loses a worker and continues</title>\n"
        f"<desc>The next step comes {recording.recovery_seconds:.2f} s after the kill.</desc>\n"
        f"<style>{STYLE}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>\n'
        + "\n".join(rows)
        + "\n</svg>\n"
    )


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=REPOSITORY / "build/release/bin",
                        help="folder of lockstep and lockstep-runtime")
    parser.add_argument("--runs", type=int, default=5, help="number of runs to choose from")
    parser.add_argument("--output", type=pathlib.Path, default=REPOSITORY / "docs/demo.svg")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error(f"argument --runs: {options.runs}: expected 1 or more")
    recordings = []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            recordings.append(record(options.bin.resolve(), pathlib.Path(folder).resolve()))
        print(f"next step after {recordings[-1].recovery_seconds:.2f} s", flush=True)
    chosen = median_recording(recordings)
    options.output.write_text(draw(chosen))
    print(f"{options.output}: {len(chosen.lines)} lines, recovery {chosen.recovery_seconds:.2f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
