"""An unmodified Horovod program trains under a TrainingJob as it does under horovodrun."""

import os
import re
import signal
import subprocess
import unittest

from horovod_ways import by_horovodrun, first_rank, job
from harness import REPOSITORY, LocalTest

PROGRAM = REPOSITORY / "examples" / "horovod_torch.py"
PYTHON = os.environ.get("LOCKSTEP_HOROVOD_PYTHON", "")
STEPS = 40
LONG_STEPS = 600
# Of sums in another order: horovodrun has all ranks on one host.
LOSS_DELTA = 1e-5


def losses(text):
    return re.findall(r"step (\d+) loss ([0-9.]+)", text)


def manifest(*arguments, workers, processes=1, **changes):
    return job([PYTHON, "-B", str(PROGRAM), *arguments], workers, processes, **changes)


@unittest.skipUnless(PYTHON, "Horovod is not installed; tests/peers/horovod.sh installs it")
class HorovodTorch(LocalTest):
    def train_by_horovodrun(self, ranks):
        command, environment = by_horovodrun(
            PYTHON, ranks, [PYTHON, "-B", str(PROGRAM), str(STEPS)])
        ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False,
                             env=environment)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = losses(first_rank(ran.stdout))
        self.assertEqual(len(found), STEPS, ran.stdout)
        return found

    def check_same_losses(self, workers, processes):
        ranks = workers * processes
        run = self.run_job(manifest(str(STEPS), workers=workers, processes=processes))
        self.assertEqual(run.exit_code, 0, run.output)
        found, expected = losses(run.pod_log("hvd-worker-0")), self.train_by_horovodrun(ranks)
        self.assertEqual([step for step, _ in found], [step for step, _ in expected])
        for (_, loss), (_, other) in zip(found, expected):
            self.assertAlmostEqual(float(loss), float(other), delta=LOSS_DELTA)
        for rank in range(ranks):
            pod, local_rank = divmod(rank, processes)
            self.assertIn(f"rank {rank} of {ranks}, local {local_rank} of {processes}, "
                          f"cross {pod} of {workers}, ", run.pod_log(f"hvd-worker-{pod}"))

    def test_two_ranks(self):
        self.check_same_losses(workers=2, processes=1)

    def test_three_ranks(self):
        self.check_same_losses(workers=3, processes=1)

    def test_two_pods_of_two_ranks(self):
        self.check_same_losses(workers=2, processes=2)

    def test_killed_rank_costs_the_steps_since_the_checkpoint_only(self):
        arguments = [str(LONG_STEPS), "$(LOCKSTEP_CHECKPOINT_DIR)"]
        undisturbed = self.run_job(manifest(*arguments, workers=2))
        self.assertEqual(undisturbed.exit_code, 0, undisturbed.output)

        started = self.start(manifest(*arguments, workers=2, backoff_limit=3,
                                      restart_policy="OnFailure"))
        pods = started[1] / "pods"
        log = pods / "hvd-worker-0" / "pod.log"
        self.wait_for(lambda: log.exists() and "step 100 loss" in log.read_text())
        victim = re.search(r"process (\d+),", (pods / "hvd-worker-1" / "pod.log").read_text())
        os.kill(int(victim[1]), signal.SIGKILL)
        run = self.finish(started)

        self.assertEqual(run.exit_code, 0, run.output)
        after = run.pod_log("hvd-worker-0-a1")
        begin = int(re.search(r"from step (\d+)", after)[1])
        self.assertGreaterEqual(begin, 100, run.output)
        self.assertEqual(losses(after), losses(undisturbed.pod_log("hvd-worker-0"))[begin:])


if __name__ == "__main__":
    unittest.main(verbosity=2)
