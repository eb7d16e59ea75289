#!/usr/bin/env python3
"""From SIGKILL of a worker to the next completed step, over many runs.

Each run trains the network of examples/mnist.yaml with three workers for some steps; worker 0 and
worker 1 are killed in turn, at a step that moves from run to run. The figure is the summary's
killToNextStepSeconds: from the kill to the first step that all ranks completed after it. Beside it,
where a working torchrun is found (--torchrun), the same kill under torch's elastic launcher.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
MANIFEST = REPOSITORY / "examples" / "mnist.yaml"
PHASES = ["detect", "spawn", "engineLoad", "rendezvous", "state", "step"]
ELASTIC = pathlib.Path(__file__).with_name("torch_elastic.py")
ELASTIC_PATIENCE_SECONDS = 30  # a restart that hangs is counted as lost after this long


def shortened_manifest(folder, steps):
    text = MANIFEST.read_text()
    text = re.sub(r"epochs: \d+", f"steps: {steps}", text)
    text = text.replace("data/mnist", str(REPOSITORY / "examples" / "data" / "mnist"))
    manifest = folder / "recovery.yaml"
    manifest.write_text(text)
    return manifest


def kill_one(lockstep, folder, run, steps):
    victim = f"worker-{run % 2}"
    summary = folder / f"{run}.json"
    ran = subprocess.run(
        [lockstep, "run", shortened_manifest(folder, steps), "--dir", folder / f"run-{run}",
         "--chaos", f"kill={victim}@step={30 + run % 20}", "--summary", summary],
        capture_output=True, text=True, timeout=300)
    document = json.loads(summary.read_text())
    recovered = ran.returncode == 0 and len(document["recoveries"]) == 1
    if not recovered:
        print(f"run {run}: not recovered (exit code {ran.returncode})\n{ran.stdout}", flush=True)
        return None
    recovery = document["recoveries"][0]
    print(f"run {run}: {victim} " + " ".join(
        f"{phase} {recovery[phase + 'Seconds']:.3f}" for phase in PHASES) +
        f" | {recovery['killToNextStepSeconds']:.3f} s, lost {document['samplesLost']}, "
        f"repeated {document['samplesRepeated']}", flush=True)
    return recovery


def kill_one_elastic(torchrun, folder, run):
    """Seconds from the kill of one rank to the next step under torch's elastic launcher."""
    log = folder / f"elastic-{run}.log"
    with log.open("w") as output:
        launcher = subprocess.Popen(
            [*torchrun, "--nnodes=1", "--nproc-per-node=2", "--max-restarts=3",
             "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", ELASTIC,
             folder / f"state-{run}"],
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        return elastic_seconds(log, run % 2)
    finally:
        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()


def elastic_seconds(log, victim):
    killed_at = None
    deadline = time.monotonic() + 2 * ELASTIC_PATIENCE_SECONDS
    while time.monotonic() < deadline:
        steps = re.findall(r"rank (\d) pid (\d+) step (\d+) at ([0-9.]+)", log.read_text())
        if killed_at is None and len(steps) >= 60:
            pid = next(int(pid) for rank, pid, _, _ in steps if int(rank) == victim)
            killed_at = time.time()
            os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + ELASTIC_PATIENCE_SECONDS
        after = [float(at) for _, _, _, at in steps if killed_at and float(at) > killed_at + 0.05]
        if after:
            return after[0] - killed_at
        time.sleep(0.01)
    return None


def describe(name, seconds, run_count):
    done = sorted(value for value in seconds if value is not None)
    line = f"{name}: {len(done)} of {run_count} recovered"
    if done:
        line += (f", p50 {statistics.median(done):.3f} s, min {done[0]:.3f} s, "
                 f"max {done[-1]:.3f} s")
    print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build" / "release")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--torchrun", nargs="+", help="the words that start torchrun")
    arguments = parser.parse_args()
    lockstep = arguments.build / "bin" / "lockstep"
    if not lockstep.exists():
        sys.exit(f"{lockstep} does not exist: build the release preset first")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}, {arguments.runs} runs")
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as name:
        folder = pathlib.Path(name)
        recoveries = []
        elastic = []
        for run in range(arguments.runs):
            recoveries.append(kill_one(lockstep, folder, run, arguments.steps))
            if arguments.torchrun:
                elastic.append(kill_one_elastic(arguments.torchrun, folder, run))
        done = [recovery for recovery in recoveries if recovery]
        for phase in PHASES if done else []:
            print(f"  {phase}: p50 "
                  f"{statistics.median(one[phase + 'Seconds'] for one in done):.3f} s")
        describe("lockstep", [one and one["killToNextStepSeconds"] for one in recoveries],
                 arguments.runs)
        if arguments.torchrun:
            describe("torchrun", elastic, arguments.runs)


if __name__ == "__main__":
    main()
