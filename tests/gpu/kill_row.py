"""kill -9 of a worker that trains on the GPU, to the next step of its replacement: a process that
starts, opens the GPU, takes the newest checkpoint and then a step."""

import contextlib
import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request

CHECKPOINT_EVERY = 50
JOB_KEY = "a" * 64  # without one the status is nobody's
TOKEN_SECONDS = 30
PATIENCE_SECONDS = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(scratch, plugin, training, *, start, mesh_port):
    """Of the only worker of a job, as `lockstep run` sets it; `start` counts its processes."""
    cluster = {"cluster": {"worker": [f"127.0.0.1:{mesh_port}"]},
               "task": {"type": "worker", "index": 0}}
    key_file = scratch / "key"
    key_file.write_text(JOB_KEY)
    return {
        **os.environ,
        "LOCKSTEP_JOB": "gpu", "LOCKSTEP_NAMESPACE": "local", "LOCKSTEP_JOB_UID": "gpu-1",
        "LOCKSTEP_ATTEMPT": "0", "LOCKSTEP_EPOCH": str(start + 1),
        "LOCKSTEP_INCARNATION": str(start), "LOCKSTEP_POD": f"gpu-worker-0-r{start}",
        "LOCKSTEP_ROLE": "worker", "LOCKSTEP_INDEX": "0", "LOCKSTEP_RANK": "0",
        "LOCKSTEP_WORLD_SIZE": "1", "LOCKSTEP_BIND_ADDRESS": "127.0.0.1",
        "LOCKSTEP_JOB_KEY_FILE": str(key_file),
        "LOCKSTEP_STATUS_PORT": str(free_port()), "TF_CONFIG": json.dumps(cluster),
        "LOCKSTEP_TRAINING": json.dumps(training), "LOCKSTEP_ENGINE": str(plugin),
        "LOCKSTEP_CHECKPOINT_DIR": str(scratch / "checkpoints"),
        "LOCKSTEP_TERMINATION_MESSAGE_FILE": str(scratch / f"last-words-{start}"),
    }


def section(digits, devices):
    return {
        "seed": 1, "steps": 10_000_000, "globalBatchSize": 128, "devices": devices,
        "model": {"inputShape": [28, 28, 1],
                  "layers": [{"type": "Flatten"},
                             {"type": "Dense", "units": 128, "activation": "relu"},
                             {"type": "Dense", "units": 10}]},
        "loss": {"type": "SparseCategoricalCrossentropy", "fromLogits": True},
        "optimizer": {"type": "Adam"},
        "dataset": {"format": "idx", "images": str(digits / "t10k-images-idx3-ubyte.gz"),
                    "labels": str(digits / "t10k-labels-idx1-ubyte.gz"),
                    "scale": 0.00392156862745098},
        "checkpoint": {"directory": "checkpoints", "everySteps": CHECKPOINT_EVERY},
    }


class Worker:
    def __init__(self, runtime, variables, log):
        self.url = f"http://127.0.0.1:{variables['LOCKSTEP_STATUS_PORT']}/status"
        self.pod = variables["LOCKSTEP_POD"]
        self.log = log
        with open(log, "wb") as file:
            self.process = subprocess.Popen([str(runtime), "train"], env=variables, stdout=file,
                                            stderr=file, start_new_session=True)

    def status(self):
        expiry = int(time.time()) + TOKEN_SECONDS
        signature = hmac.new(JOB_KEY.encode(), f"status\n{self.pod}\n{expiry}".encode(),
                             hashlib.sha256).hexdigest()
        request = urllib.request.Request(
            self.url, headers={"Authorization": f"Bearer {expiry}.{signature}"})
        with contextlib.suppress(OSError, ValueError), \
                urllib.request.urlopen(request, timeout=1) as answer:
            return json.load(answer)
        return None

    def await_status(self, is_right):
        """The first status that is; in the worker's own words why there is none."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            status = self.status()
            if status is not None and is_right(status):
                return status
            time.sleep(0.005)
        lines = self.log.read_text(errors="replace").splitlines()
        raise TimeoutError(lines[-1] if lines else "the worker says nothing")

    def end(self, kind):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, kind)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def first_step_ns(status):
    events = [event for event in status["timeline"] if event["event"] == "first_step"]
    return events[-1]["monotonicNs"] if events else None


def measure(runtime, plugin, scratch, digits, devices):
    """(seconds from the kill to the next step, step that was restored)"""
    training = section(digits, devices)
    mesh_port = free_port()
    workers = []

    def start(number):
        variables = environment(scratch, plugin, training, start=number, mesh_port=mesh_port)
        workers.append(Worker(runtime, variables, scratch / f"worker-{number}.log"))
        return workers[-1]

    try:
        first = start(0)
        first.await_status(lambda status: (status["lastCheckpointStep"] or 0) >= CHECKPOINT_EVERY)
        killed_ns = time.monotonic_ns()
        first.end(signal.SIGKILL)
        status = start(1).await_status(lambda status: first_step_ns(status) is not None)
        return ((first_step_ns(status) - killed_ns) / 1e9,
                status["checkpoints"]["restoredStep"])
    finally:
        for worker in workers:
            if worker.process.poll() is None:
                worker.end(signal.SIGKILL)


def print_row(rows, what, programs, plugin, scratch):
    from networks import DIGITS
    runtime = programs / "lockstep-runtime"
    if not runtime.exists():
        rows.print(what, f"no {runtime}", "", "not run")
        return
    try:
        seconds, restored = measure(runtime, plugin, scratch, DIGITS, ["0"])
    except (TimeoutError, OSError) as error:
        rows.print(what, error, "goes on", "MISSED")
        return
    rows.bar(what, f"{seconds:.2f} s, from the checkpoint of step {restored}", "goes on",
             restored is not None)
