"""An unmodified MultiWorkerMirroredStrategy program trains under a TrainingJob as by hand."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "local"))

from harness import REPOSITORY, RUN_TIMEOUT_SECONDS, LocalTest, command_manifest  # noqa: E402

PROGRAM = REPOSITORY / "examples" / "tensorflow_mwms.py"
PYTHON = os.environ.get("LOCKSTEP_TENSORFLOW_PYTHON", "")
COMMAND = [PYTHON, "-B", str(PROGRAM)]  # autograph would leave compiled files in the scratch folder


def losses(text):
    return re.findall(r"epoch (\d+) loss ([0-9.]+)", text)


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@unittest.skipUnless(PYTHON, "TensorFlow is not installed; tests/peers/tensorflow.sh installs it")
class TensorFlowMultiWorkerMirrored(LocalTest):
    def train_by_hand(self):
        workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
        processes = []
        for index in range(2):
            config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
            processes.append(subprocess.Popen(
                COMMAND, env={**os.environ, "TF_CONFIG": json.dumps(config)},
                stdout=subprocess.PIPE, text=True))
            self.addCleanup(processes[-1].wait)
            self.addCleanup(processes[-1].kill)
        outputs = [process.communicate(timeout=RUN_TIMEOUT_SECONDS)[0] for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0])
        return losses(outputs[0])

    def test_same_losses_as_by_hand(self):
        by_hand = self.train_by_hand()
        self.assertEqual(len(by_hand), 5)
        run = self.run_job(command_manifest(COMMAND, name="mwms"))
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(losses(run.pod_log("mwms-worker-0")), by_hand)


if __name__ == "__main__":
    unittest.main(verbosity=2)
