"""An unmodified torch DDP program trains under a TrainingJob as it does when started by hand."""

import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "local"))

from harness import REPOSITORY, LocalTest, command_manifest  # noqa: E402

PROGRAM = REPOSITORY / "examples" / "torch_ddp.py"
PYTHON = "/usr/bin/python3"  # the interpreter that Debian's python3-torch belongs to


def has_torch():
    probe = subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True)
    return probe.returncode == 0


def losses(text):
    return re.findall(r"step (\d+) loss ([0-9.]+)", text)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@unittest.skipUnless(has_torch(), "Debian's python3-torch is not installed")
class TorchDdp(LocalTest):
    def folder(self, name):
        (self.scratch / name).mkdir()
        return str(self.scratch / name)

    def train_by_hand(self):
        port, folder = str(free_port()), self.folder("by-hand")
        ranks = []
        for rank in range(2):
            variables = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                         "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo", "CHECKPOINTS": folder}
            ranks.append(subprocess.Popen([PYTHON, PROGRAM], env={**os.environ, **variables},
                                          stdout=subprocess.PIPE, text=True))
        outputs = [rank.communicate(timeout=100)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0])
        return losses(outputs[0])

    def test_same_losses_as_by_hand(self):
        by_hand = self.train_by_hand()
        self.assertEqual(len(by_hand), 20)
        run = self.run_job(command_manifest(
            ["/usr/bin/env", f"CHECKPOINTS={self.folder('job')}", PYTHON, str(PROGRAM)],
            name="ddp"))
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(losses(run.pod_log("ddp-worker-0")), by_hand)


if __name__ == "__main__":
    unittest.main(verbosity=2)
