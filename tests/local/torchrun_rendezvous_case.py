"""Jobs whose pods' torchruns meet by the rendezvous `lockstep`."""

import pathlib
import re

from harness import LocalTest, command_manifest
from python_case import PYTHON_WORDS
from torchrun_case import TorchrunCase

PROGRAM = pathlib.Path(__file__).with_name("torchrun_rendezvous_program.py")

# The package as it lies in the repository has no entry point, nor does a torch before 2.6 read any.
REGISTER = """import lockstep.torchrun
lockstep.torchrun.register()
import time
while os.path.exists(os.path.dirname(__file__) + "/absent"):
    time.sleep(0.1)
from torch.distributed.run import main
"""
STEPS = 20


class RendezvousCase(TorchrunCase, LocalTest):
    def setUp(self):
        super().setUp()
        text = self.torchrun.read_text()
        self.torchrun.write_text(
            text.replace("from torch.distributed.run import main\n", REGISTER))

    def ranks(self, *deeds, workers=3, processes=2, options=("--rdzv_backend=lockstep",),
              recovery="{}"):
        """The manifest of a job."""
        command = [*PYTHON_WORDS, str(self.torchrun), *options, str(PROGRAM), str(self.scratch),
                   str(STEPS), *deeds]
        manifest = command_manifest(command, name="ranks", workers=workers, backoff_limit=2,
                                    recovery=recovery)
        return manifest.replace(
            f"replicas: {workers}", f"replicas: {workers}\n    processes: {processes}")

    def run_ranks(self, *deeds, **how):
        return self.run_job(self.ranks(*deeds, **how))

    def starts(self, run, pod):
        """Of each start of a worker in pod `pod`, or its successor: its restart count and its
        torchrun's process."""
        found = []
        for log in sorted(run.directory.glob(f"pods/ranks-worker-{pod}*/pod.log")):
            found += re.findall(r"began as \d+ of \d+, restart (\d+), agent (\d+)",
                                log.read_text(errors="replace"))
        return [(int(count), int(agent)) for count, agent in found]

    def check(self, run, torchruns, restarts=(), counts=((0,), (0,), (0,))):
        """The job has succeeded, with so many torchruns in each pod, and these restart counts."""
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(run.summary["restarts"], list(restarts), run.output)
        for pod, torchrun_count in enumerate(torchruns):
            starts = self.starts(run, pod)
            self.assertEqual(len({agent for _, agent in starts}), torchrun_count, run.output)
            self.assertEqual({count for count, _ in starts}, set(counts[pod]), run.output)

    def check_trained(self, run, *arguments, **how):
        """The same, and all ranks have taken all steps."""
        self.check(run, *arguments, **how)
        ranks = len(re.findall(rf"has taken {STEPS} steps with \d+ ranks", run.output))
        self.assertEqual(ranks, int(re.search(r"steps with (\d+) ranks", run.output)[1]))
