#!/usr/bin/env python3
"""Compares our all-reduce with Gloo's and OpenMPI's in one session on this machine.

Runs every contender in turn, round after round, alone and with every core taken by other work,
and prints one table per world size and load. See tests/bench/README.md.
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Bytes and iterations a round. The byte counts of facts worth knowing: one number, one page, where
# the small way ends, and gradients from a small network to a large bucket.
SIZES = [
    (4, 10000),
    (4096, 5000),
    (65536, 2000),
    (262144, 1000),
    (1048576, 300),
    (4194304, 100),
    (16777216, 24),
    (67108864, 10),
]
# With the cores taken, Gloo waits for a time slice in every call: fewer iterations.
BUSY_DIVISOR = 10
# A measurement that takes longer is given up and shown as a gap.
RUN_SECONDS_MAX = 240
LARGE_BYTES_MIN = 262144
SMALL_BYTES_MAX = 4096
# The bars: by what the cores do and whether every rank has one, what of a contender's time ours may
# take at most, for large and for small sums; a ratio is "their time / our time".
BARS = {
    ("idle", True): {"gloo": (6.0, None), "openmpi": (1.7, 0.5)},
    ("idle", False): {"gloo": (2.0, None), "openmpi": (1.3, 0.5)},
    ("busy", True): {"gloo": (2.0, None), "openmpi": (1.0, 1 / 3)},
    ("busy", False): {"gloo": (2.0, None), "openmpi": (1.0, 1 / 3)},
}
# Ours that the others are held against: the way of the trainer's gradients.
OURS = "ours lent"


class Contender:
    """One program and how to start it. `command(ranks, folder)` is without the sizes."""

    def __init__(self, name, command):
        self.name = name
        self.command = command

    def measure(self, ranks, sizes):
        """{bytes: (p50, min, mean)} in microseconds; what failed or took too long is missing."""
        with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
            command = self.command(ranks, folder)
            command += [f"{size}:{iterations}" for size, iterations in sizes]
            return parse_lines(run_bounded(command))


def run_bounded(command):
    """What the command printed within RUN_SECONDS_MAX; its whole process group ends with it."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=sys.stderr, text=True, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=RUN_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            print(f"gave up after {RUN_SECONDS_MAX} s: {' '.join(command[:4])}", file=sys.stderr)
    return output


def parse_lines(output):
    results = {}
    for line in output.splitlines():
        size, *times = line.split()
        results[int(size)] = tuple(float(one) for one in times)
    return results


def find_contenders(binaries):
    ours = str(binaries / "bench_allreduce_lockstep")
    gloo = binaries / "bench_allreduce_gloo"
    openmpi = binaries / "bench_allreduce_openmpi"
    contenders = [
        Contender(OURS, lambda ranks, _: [ours, str(ranks), "lent"]),
        Contender("ours staged", lambda ranks, _: [ours, str(ranks), "staged"]),
        Contender("ours tcp", lambda ranks, _: [ours, str(ranks), "tcp"]),
    ]
    if gloo.exists():
        contenders.append(Contender("gloo", lambda ranks, folder: [str(gloo), str(ranks), folder]))
    if openmpi.exists() and shutil.which("mpirun"):
        # More ranks than cores would be refused otherwise; with enough cores nothing changes.
        start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np"]
        contenders.append(Contender("openmpi", lambda ranks, _: start + [str(ranks), str(openmpi)]))
    return contenders


def wait_for_quiet(seconds_max):
    """Waits until other programs leave the cores alone; says what it saw."""
    begin = time.monotonic()
    while True:
        share = busy_share(1.0)
        waited = time.monotonic() - begin
        if share < 0.1 or waited > seconds_max:
            return f"waited {waited:.0f} s; other work takes {100 * share:.0f} % of the cores"


def busy_share(seconds):
    """Share of all cores' time that was not idle, over the given time."""
    before = cpu_times()
    time.sleep(seconds)
    spent = [after - earlier for after, earlier in zip(cpu_times(), before)]
    idle = spent[3] + spent[4]
    return 1.0 - idle / max(sum(spent), 1)


def cpu_times():
    first_line = Path("/proc/stat").read_text().splitlines()[0]
    return [int(field) for field in first_line.split()[1:9]]


class OtherWork:
    """One endless loop on each core, for as long as the context lasts."""

    def __enter__(self):
        self.loops = []
        for core in sorted(os.sched_getaffinity(0)):
            program = f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile 1: 0"
            self.loops.append(subprocess.Popen([sys.executable, "-c", program]))
        return self

    def __exit__(self, *_):
        for loop in self.loops:
            loop.kill()
            loop.wait()


def measure_all(contenders, ranks, sizes, rounds, quiet_seconds):
    """{name: {bytes: (median of p50s, least min, median of means)}}, and what the machine did."""
    samples = {one.name: {} for one in contenders}
    notes = []
    for _ in range(rounds):
        if quiet_seconds:
            notes.append(wait_for_quiet(quiet_seconds))
        for contender in contenders:
            for size, times in contender.measure(ranks, sizes).items():
                samples[contender.name].setdefault(size, []).append(times)
    merged = {
        name: {
            size: (
                statistics.median(one[0] for one in all_times),
                min(one[1] for one in all_times),
                statistics.median(one[2] for one in all_times),
            )
            for size, all_times in by_size.items()
        }
        for name, by_size in samples.items()
    }
    return merged, notes


def best_ours(results, size):
    return results[OURS].get(size)


def ratio_text(theirs, ours, index):
    return f"{theirs[index] / ours[index]:6.2f}" if theirs and ours else "     -"


def print_table(title, results, sizes):
    print(f"\n{title}")
    names = list(results)
    others = [name for name in names if not name.startswith("ours")]
    columns = "".join(f"{name + ' p50 (min)':>24}" for name in names)
    ratios = "".join(f"{name + '/lent p50 (min)':>24}" for name in others)
    print(f"{'bytes':>10}{columns}{ratios}")
    for size, _ in sizes:
        row = f"{size:>10}"
        for name in names:
            times = results[name].get(size)
            row += f"{f'{times[0]:.2f} ({times[1]:.2f})' if times else '-':>24}"
        for name in others:
            theirs, ours = results[name].get(size), best_ours(results, size)
            text = f"{ratio_text(theirs, ours, 0)} ({ratio_text(theirs, ours, 1).strip()})"
            row += f"{text:>24}"
        print(row)


def lost_bars(title, bars, results, sizes):
    """One line for every bar that our p50 or minimum misses."""
    for size, _ in sizes:
        ours = best_ours(results, size)
        for name, bar in bars_of(bars, size):
            theirs = results.get(name, {}).get(size)
            for index, what in ((0, "p50"), (1, "min")):
                if ours and theirs and theirs[index] / ours[index] < bar:
                    yield (
                        f"{title}: {size} bytes, {what}: {name} {theirs[index]:.2f} us, "
                        f"ours {ours[index]:.2f} us, bar {bar:.2f} x"
                    )


def bars_of(bars, size):
    for name, (large, small) in bars.items():
        if size >= LARGE_BYTES_MIN:
            yield name, large
        elif size <= SMALL_BYTES_MAX and small is not None:
            yield name, small


def cpu_model():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    root = Path(__file__).resolve().parents[3]
    parser.add_argument("--binaries", type=Path, default=root / "build" / "release" / "bin")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", choices=["idle", "busy", "both"], default="both")
    parser.add_argument("--quiet-seconds", type=float, default=60, help="wait so long for quiet")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    contenders = find_contenders(arguments.binaries)
    print(
        f"{len(os.sched_getaffinity(0))} cores, {cpu_model()}, Linux {platform.release()}; "
        f"load average {os.getloadavg()[0]:.1f}; float sums in place; microseconds; "
        f"'{OURS}' sums where the trainer's gradients lie, in memory that all ranks map, "
        f"'ours staged' what lies elsewhere; {arguments.rounds} rounds, p50 is the median of the "
        f"rounds' p50, min the least of all"
    )
    misses = []
    for ranks in arguments.ranks:
        for load in ("idle", "busy"):
            if arguments.load not in (load, "both"):
                continue
            title = f"{ranks} ranks, " + ("idle" if load == "idle" else "every core taken")
            if load == "idle":
                results, notes = measure_all(
                    contenders, ranks, SIZES, arguments.rounds, arguments.quiet_seconds
                )
            else:
                sizes = [(size, max(10, count // BUSY_DIVISOR)) for size, count in SIZES]
                with OtherWork():
                    results, notes = measure_all(contenders, ranks, sizes, arguments.rounds, 0)
            print_table(title, results, SIZES)
            for note in notes:
                print(f"  {note}")
            bars = BARS[load, ranks <= len(os.sched_getaffinity(0))]
            misses += lost_bars(title, bars, results, SIZES)
    absent = {"gloo", "openmpi"} - {one.name for one in contenders}
    for name in sorted(absent):
        print(f"\n{name} is not installed: its bars were not looked at.")
    print("\nWhere we miss a bar:" if misses else "\nNo bar is missed.")
    for line in misses:
        print(f"  {line}")


if __name__ == "__main__":
    main()
