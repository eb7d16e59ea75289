#!/usr/bin/env python3
"""From kill -9 of a process in a living pod to the first line of its successor's own code, with an
interpreter that is kept warm and without, in turn.

The program imports torch and then says the time. The figure is that time less the moment of the
kill, on one machine's clock: what is in between is noticing the loss, and starting or forking.
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
PROGRAM = pathlib.Path(__file__).with_name("program.py")
PATIENCE_SECONDS = 60


def manifest(build, python, modules):
    variables = {"PYTHONPATH": REPOSITORY / "trainer-runtime" / "python",
                 "LD_LIBRARY_PATH": build / "bin",
                 "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    container = {"name": "trainer", "image": "local", "command": [python, str(PROGRAM)],
                 "env": [{"name": name, "value": str(value)} for name, value in variables.items()]}
    worker = {"name": "worker", "replicas": 2, "template": {"spec": {"containers": [container]}}}
    if modules:
        worker["warm"] = modules
    return json.dumps({"apiVersion": "lockstep.dev/v1", "kind": "TrainingJob",
                       "metadata": {"name": "warm"},
                       "spec": {"strategy": "None", "roles": [worker]}})


class Job:
    """A run of the program, whose worker 1 is killed again and again."""

    def __init__(self, folder, build, python, modules):
        self.log = folder / "run" / "pods" / "warm-worker-1" / "pod.log"
        folder.mkdir()
        (folder / "warm.yaml").write_text(manifest(build, python, modules))
        self.process = subprocess.Popen(
            [build / "bin" / "lockstep", "run", folder / "warm.yaml", "--dir", folder / "run"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def found(self, pattern):
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return re.findall(pattern, text)

    def wait_for(self, pattern, count):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.found(pattern)) < count:
            if time.monotonic() > deadline:
                sys.exit(f"waited in vain for {pattern!r} in {self.log}: try it by hand")
            time.sleep(0.002)
        return self.found(pattern)

    def kill_one(self, number):
        """Seconds from the kill to the first line of what comes next."""
        begun = self.wait_for(r"begins (\d+) ([0-9.]+)", number + 1)
        self.wait_for(r"\] steps", number + 1)
        time.sleep(0.3)  # for some steps: a loss without one since the last ends the pod
        killed_at = time.time()
        os.kill(int(begun[-1][0]), signal.SIGKILL)
        return float(self.wait_for(r"begins (\d+) ([0-9.]+)", number + 2)[-1][1]) - killed_at

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE_SECONDS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build" / "release")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--python", default="/usr/bin/python3")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    seconds = {"plain": [], "warm": []}
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}, {arguments.kills} kills each")
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as name:
        jobs = {kind: Job(pathlib.Path(name) / kind, build, arguments.python, modules)
                for kind, modules in (("plain", []), ("warm", ["torch"]))}
        try:
            for number in range(arguments.kills):
                for kind, job in jobs.items():
                    seconds[kind].append(job.kill_one(number))
        finally:
            for job in jobs.values():
                job.stop()
    for kind, values in seconds.items():
        print(f"{kind}: kill to first line p50 {statistics.median(values):.3f} s, "
              f"min {min(values):.3f} s, max {max(values):.3f} s")


if __name__ == "__main__":
    main()
