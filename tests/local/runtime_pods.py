"""Pods of a job of workers, each a `lockstep-runtime run` that a test starts by itself."""

import json
import os
import socket
import subprocess

from harness import BIN, RUN_TIMEOUT_SECONDS, LocalTest

RUNTIME = BIN / "lockstep-runtime"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Pod:
    """What one pod came to: exit code, output, and its last words."""

    def __init__(self, exit_code, output, words):
        self.exit_code = exit_code
        self.output = output
        self.words = words


class RuntimePodsTest(LocalTest):
    def environment_of(self, pod, pods, processes, port):
        """What the operator tells the pod of a job on one machine."""
        host = f"127.9.9.{pod + 1}"
        variables = {
            "LOCKSTEP_JOB": "job", "LOCKSTEP_NAMESPACE": "default", "LOCKSTEP_JOB_UID": "uid",
            "LOCKSTEP_ATTEMPT": "0", "LOCKSTEP_EPOCH": "0", "LOCKSTEP_INCARNATION": "0",
            "LOCKSTEP_POD": f"job-worker-{pod}", "LOCKSTEP_ROLE": "worker",
            "LOCKSTEP_INDEX": str(pod), "LOCKSTEP_RANK": str(pod * processes),
            "LOCKSTEP_WORLD_SIZE": str(pods * processes), "LOCKSTEP_PROCESSES": str(processes),
            "LOCKSTEP_HOST": host, "LOCKSTEP_BIND_ADDRESS": host, "LOCKSTEP_STATUS_PORT": "0",
            "LOCKSTEP_GRACE_SECONDS": "20", "MASTER_ADDR": "127.9.9.1", "MASTER_PORT": str(port),
            "LOCKSTEP_TERMINATION_MESSAGE_FILE": str(self.scratch / f"words-{pod}")}
        if pods * processes > 1:
            addresses = [f"127.9.9.{i + 1}:{2222 + j}"
                         for i in range(pods) for j in range(processes)]
            variables["TF_CONFIG"] = json.dumps({
                "cluster": {"worker": addresses},
                "task": {"type": "worker", "index": pod * processes}})
        return variables

    def start_pods(self, command, pods=1, processes=1, arguments=(), variables=()):
        """Starts all; returns their processes. Each writes its output to the file log-POD."""
        port = free_port()
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith(("LOCKSTEP_", "CUDA_", "NVIDIA_", "PET_"))}
        started = []
        for pod in range(pods):
            environment = {**inherited, "TMPDIR": str(self.scratch),
                           **self.environment_of(pod, pods, processes, port), **dict(variables)}
            with (self.scratch / f"log-{pod}").open("w") as log:
                started.append(subprocess.Popen(
                    [RUNTIME, "run", *arguments, "--", *command], env=environment, stdout=log,
                    stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL))
        return started

    def log(self, pod):
        return (self.scratch / f"log-{pod}").read_text(errors="replace")

    def finish_pods(self, started):
        for process in started:
            process.wait(timeout=RUN_TIMEOUT_SECONDS)
        return [Pod(process.returncode, self.log(pod),
                    json.loads((self.scratch / f"words-{pod}").read_text()))
                for pod, process in enumerate(started)]

    def run_pods(self, command, **how):
        return self.finish_pods(self.start_pods(command, **how))
