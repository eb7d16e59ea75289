"""Who says nothing is judged fairly: ranks that get no core are not lost, and one that is stopped
or killed is noticed.

The gate asks for one small case of each. scripts/test.sh --soak sets LOCKSTEP_CROWD=3x100 and
LOCKSTEP_LOSSES=20: three runs of 100 ranks, and 20 losses of each kind whose figures are printed
and held to their bars.
"""

import os
import statistics
import unittest

from harness import LocalTest, training_manifest

RUNS, RANKS = (int(number) for number in os.environ.get("LOCKSTEP_CROWD", "1x24").split("x"))
LOSSES = int(os.environ.get("LOCKSTEP_LOSSES", "1"))
CORES = 2  # that all ranks share
STEPS_BETWEEN = 300
BAR_SECONDS = {"stop": 2, "kill": 0.05}


class Silence(LocalTest):
    def setUp(self):
        super().setUp()
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, sorted(cores)[:CORES])  # the runs inherit it
        self.addCleanup(os.sched_setaffinity, 0, cores)

    def test_healthy_ranks_that_share_few_cores_are_not_lost(self):
        for number in range(RUNS):
            with self.subTest(run=number):
                run = self.run_job(
                    training_manifest(workers=RANKS, steps=60, every_steps=60),
                    "--set", f"training.globalBatchSize={2 * RANKS}")
                self.assert_trained(run)
                self.assertEqual(run.summary["restarts"], [], run.output)
                self.assertEqual(run.summary["recoveries"], [], run.output)
                print(f"{RANKS} ranks on {CORES} cores: no loss, "
                      f"{run.summary['elapsedSeconds']:.0f} s", flush=True)

    def lose(self, what):
        chaos = ",".join(f"{what}=worker-1@step={STEPS_BETWEEN * (1 + loss)}"
                         for loss in range(LOSSES))
        run = self.run_job(
            training_manifest(steps=STEPS_BETWEEN * (LOSSES + 2), every_steps=1000,
                              backoff_limit=2 * LOSSES + 2),
            "--chaos", chaos)
        self.assert_trained(run, recoveries=LOSSES)
        seconds = sorted(one["detectSeconds"] for one in run.summary["recoveries"])
        self.assertEqual(len(seconds), LOSSES, run.output)
        print(f"{LOSSES} x {what}: noticed after {statistics.median(seconds):.3f} s (median), "
              f"{seconds[-1]:.3f} s at most", flush=True)
        if LOSSES > 1:
            self.assertLessEqual(seconds[-1], BAR_SECONDS[what])

    def test_a_stopped_rank_is_noticed(self):
        self.lose("stop")

    def test_a_killed_rank_is_noticed(self):
        self.lose("kill")


if __name__ == "__main__":
    unittest.main()
