#!/usr/bin/env python3
"""A large model loses a worker: what the successor's state costs the survivors, and how fast it is.

Three workers train a network whose state (parameters and Adam's slots) is about 1 GB; worker 1 is
killed. Two figures: by how much the largest resident memory (VmHWM) of each survivor grows from the
kill to the next step, as a part of the state; and the bytes of the state by the seconds that the
successor needs for it, beside this machine's memcpy of as many bytes in the same run.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
DATA = REPOSITORY / "examples" / "data" / "mnist"
STATE_GROWTH_MAX = 0.10
MEMCPY_SHARE_MIN = 0.50
VICTIM = 1

MANIFEST = """
apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata: {{name: state}}
spec:
  strategy: MultiWorkerMirrored
  roles:
  - {{name: worker, replicas: 3, gpus: 0}}
  training:
    seed: 1
    steps: {steps}
    globalBatchSize: 6
    model:
      inputShape: [28, 28, 1]
      layers:
      - {{type: Flatten}}
      - {{type: Dense, units: {first}, activation: relu}}
      - {{type: Dense, units: {second}, activation: relu}}
      - {{type: Dense, units: 10}}
    loss: {{type: SparseCategoricalCrossentropy, fromLogits: true}}
    optimizer: {{type: Adam, learningRate: 0.0001}}
    dataset:
      format: idx
      images: {data}/t10k-images-idx3-ubyte.gz
      labels: {data}/t10k-labels-idx1-ubyte.gz
      scale: 0.00392156862745098
"""


def layers_of(state_bytes):
    """Units of the two hidden layers, and the bytes of the state they make."""
    first = second = int((state_bytes / 12) ** 0.5)
    while True:
        parameters = 784 * first + first + first * second + second + second * 10 + 10
        if parameters * 12 <= state_bytes:
            return first, second, parameters * 12
        first -= 8
        second -= 8


def memcpy_rate(byte_count):
    """Bytes per second of one memcpy between two buffers that have been touched; best of three."""
    source = ctypes.create_string_buffer(byte_count)
    target = ctypes.create_string_buffer(byte_count)
    ctypes.memset(source, 1, byte_count)
    ctypes.memset(target, 2, byte_count)
    seconds = []
    for _ in range(3):
        begin = time.monotonic()
        ctypes.memmove(target, source, byte_count)
        seconds.append(time.monotonic() - begin)
    return byte_count / min(seconds)


def largest_resident(pid):
    """VmHWM in bytes; none once the process is gone."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return None


def children(pid):
    try:
        return [int(child) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
                for child in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def worker_index(pid):
    try:
        words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    for word in words:
        if word.startswith(b"TF_CONFIG="):
            return json.loads(word.partition(b"=")[2])["task"]["index"]
    return None


class Watch:
    """Largest resident memory of each worker, look by look."""

    def __init__(self):
        self.pids = {}
        self.looks = []  # (time, by worker)
        self.killed_at = None

    def look(self, root):
        stack = children(root)
        while stack:
            pid = stack.pop()
            stack += children(pid)
            index = worker_index(pid)
            if index is not None:
                self.pids.setdefault(index, pid)
        sizes = {index: largest_resident(pid) for index, pid in self.pids.items()}
        if self.killed_at is None and VICTIM in sizes and sizes[VICTIM] is None:
            self.killed_at = time.monotonic()
        self.looks.append((time.monotonic(), sizes))

    def largest(self, until):
        """Of each survivor, up to that time. The kernel never lowers it."""
        of = {}
        for at, sizes in self.looks:
            for index, size in sizes.items():
                if at <= until and index != VICTIM and size is not None:
                    of[index] = size
        return of


def run_once(arguments, folder, run, manifest):
    summary = folder / f"{run}.json"
    process = subprocess.Popen(
        [arguments.build / "bin" / "lockstep", "run", manifest, "--dir", folder / f"run-{run}",
         "--chaos", f"kill=worker-{VICTIM}@step={arguments.kill_at}", "--summary", summary],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    watch = Watch()
    while process.poll() is None:
        watch.look(process.pid)
        time.sleep(0.01)
    output = process.stdout.read()
    document = json.loads(summary.read_text()) if summary.exists() else {}
    if (process.returncode != 0 or len(document.get("recoveries", [])) != 1
            or watch.killed_at is None):
        sys.exit(f"run {run}: not recovered (exit code {process.returncode})\n{output}")
    recovery = document["recoveries"][0]
    before = watch.largest(watch.killed_at)
    # Not longer: what the last checkpoint takes is no part of a recovery.
    after = watch.largest(watch.killed_at + recovery["killToNextStepSeconds"])
    return recovery, before, {index: after[index] - before[index] for index in before}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build" / "release")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=1000, help="of state")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--kill-at", type=int, default=4)
    arguments = parser.parse_args()
    if not (arguments.build / "bin" / "lockstep").exists():
        sys.exit(f"{arguments.build}/bin/lockstep does not exist: build it first")
    first, second, state_bytes = layers_of(arguments.megabytes * 1_000_000)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}, "
          f"state {state_bytes / 1e6:.0f} MB, {arguments.runs} runs", flush=True)
    growths = []
    shares = []
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as name:
        folder = pathlib.Path(name)
        manifest = folder / "state.yaml"
        manifest.write_text(
            MANIFEST.format(steps=arguments.steps, first=first, second=second, data=DATA))
        for run in range(arguments.runs):
            memcpy = memcpy_rate(state_bytes)
            recovery, before, growth = run_once(arguments, folder, run, manifest)
            rate = state_bytes / recovery["stateSeconds"]
            shares.append(rate / memcpy)
            growths.append(max(growth.values()) / state_bytes)
            print(f"run {run}: " + ", ".join(
                f"worker {index} {before[index] / 1e6:.0f} MB and {growth[index] / 1e6:+.1f}"
                for index in sorted(before)) +
                f" | state in {recovery['stateSeconds']:.3f} s, {rate / 1e9:.2f} GB/s, memcpy "
                f"{memcpy / 1e9:.2f} | from kill to next step "
                f"{recovery['killToNextStepSeconds']:.3f} s", flush=True)
    growth = statistics.median(growths)
    share = statistics.median(shares)
    print(f"growth of a survivor / state: {growth:.3f} (bar {STATE_GROWTH_MAX:.2f})")
    print(f"rate to the successor / memcpy: {share:.2f} (bar {MEMCPY_SHARE_MIN:.2f})")
    if growth > STATE_GROWTH_MAX or share < MEMCPY_SHARE_MIN:
        sys.exit("a bar is missed")


if __name__ == "__main__":
    main()
