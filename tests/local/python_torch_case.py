"""A convolution on the digits by lockstep.torch, whose ranks kill themselves on order: what tests
share."""

import pathlib
import re
import unittest

from harness import command_manifest
from own_program_case import OwnProgramCase
from python_case import can_import, python_words

PROGRAM = pathlib.Path(__file__).with_name("python_torch_program.py")
EPOCHS = 2
SAMPLES = 1001  # the last batch of a data epoch has one: fewer than there are ranks
STEPS = 22
STEP_SECONDS = 0.01


@unittest.skipUnless(can_import("torch"), "python3-torch is not installed")
class TorchCase(OwnProgramCase):
    """Runs of python_torch_program.py."""

    def manifest(self, *moments, workers=3, epochs=EPOCHS, variables=(), launcher=(), **changes):
        """`variables`: of the program's environment, as NAME=VALUE. `launcher`: what starts it."""
        words = python_words(PROGRAM, str(epochs), str(SAMPLES), str(STEP_SECONDS), *moments)
        return command_manifest(["/usr/bin/env", *variables, *launcher, *words], name="own",
                                workers=workers, **{"backoff_limit": 3, **changes})

    def ends(self, run, workers=3):
        """What each rank says at its end, which must be equal."""
        ends = [re.findall(r"after \d+ steps: .*", run.pod_log(f"own-worker-{rank}"))
                for rank in range(workers)]
        self.assertEqual(ends, [ends[0]] * workers)
        self.assertEqual(len(ends[0]), 1)
        return ends[0][0]

    def train(self, *moments, workers=3):
        """Runs to the end; the ranks of `moments` die there, all others keep their process."""
        run = self.run_job(self.manifest(*moments, workers=workers))
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(run.summary["restarts"], [])
        for rank in range(workers):
            deaths = sum(moment.split(":")[1] == str(rank) for moment in moments)
            pids = self.pids(run.directory, rank)
            self.assertLessEqual(len(pids), deaths + 1, f"rank {rank}: {pids}")
            lost = run.pod_log(f"own-worker-{rank}").count("a new process takes its place")
            self.assertEqual(lost, deaths, run.output)
        return run

    def all_ends(self, run):
        """What all processes say that came to the end, without repetition."""
        return {end for pod in (run.directory / "pods").iterdir()
                for end in re.findall(r"after \d+ steps: .*", run.pod_log(pod.name))}
