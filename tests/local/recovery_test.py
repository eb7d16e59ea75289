"""Workers die in every way and at every bad moment; the job ends as though nothing had happened.

LOCKSTEP_SEEDS sets how often each case runs (default 1); the seed moves the step of the kill.
"""

import json
import os
import signal
import time
import unittest

from harness import LocalTest, command_manifest, training_manifest
from lanes import long

SEEDS = range(int(os.environ.get("LOCKSTEP_SEEDS", "1")))
# The latest kill, of seed 19, is at step 64: long before the end, on a busy machine too.
STEPS = 400
LONG_STEPS = 3000  # a second and more: room for a second kill while the first is being repaired


class Recovery(LocalTest):
    @classmethod
    def setUpClass(cls):
        cls.expected_weights = {}

    def undisturbed_weights(self, steps=STEPS):
        if steps not in self.expected_weights:
            run = self.run_job(training_manifest(steps=steps), name="undisturbed")
            self.assert_trained(run)
            self.expected_weights[steps] = self.final_weights(run)
        return self.expected_weights[steps]

    def check(self, chaos_of_seed, victims, **changes):
        expected = self.undisturbed_weights()
        for seed in SEEDS:
            with self.subTest(seed=seed):
                chaos = chaos_of_seed(seed)
                run = self.run_job(training_manifest(steps=STEPS, **changes), "--chaos", chaos)
                self.assert_trained(run, recoveries=1)
                self.assertEqual(self.final_weights(run), expected)
                self.check_survivors(run, victims)

    def check_survivors(self, run, victims):
        """Each survivor kept its process: its pod has one incarnation only."""
        if victims is None:
            return
        names = [pod["name"] for pod in run.summary["pods"]]
        for index in range(3):
            pods = [name for name in names if f"worker-{index}" in name]
            self.assertEqual(len(pods) > 1, index in victims, f"pods of worker {index}: {pods}")

    def test_worker_1_killed_between_checkpoints(self):
        self.check(lambda seed: f"kill=worker-1@step={25 + seed}", [1])

    def test_worker_0_killed(self):
        self.check(lambda seed: f"kill=worker-0@step={25 + seed}", [0])

    def test_two_killed_at_once(self):
        self.check(lambda seed: f"kill=worker-0+worker-2@step={25 + seed}", [0, 2])

    def test_all_killed_at_once(self):
        """Nobody holds the state: the gang resumes from the newest checkpoint."""
        self.check(lambda seed: f"kill=worker-0+worker-1+worker-2@step={45 + seed}", [0, 1, 2])

    def test_chief_killed_while_every_step_is_saved(self):
        self.check(lambda seed: f"kill=worker-0@step={25 + seed}", [0], every_steps=1)

    def test_killed_in_the_first_rendezvous(self):
        self.check(lambda seed: f"kill=worker-{seed % 3}@phase=rendezvous", None)

    @long
    def test_second_worker_killed_while_the_first_is_being_replaced(self):
        """The second kill comes within the half second that a replacement needs to join."""
        expected = self.undisturbed_weights(LONG_STEPS)
        for seed in SEEDS:
            with self.subTest(seed=seed):
                started = self.start(training_manifest(steps=LONG_STEPS),
                                     "--chaos", f"kill=worker-1@step={25 + seed}")
                directory = started[1]
                self.wait_for(lambda: (directory / "pods" / "quick-worker-1-r1").exists())
                time.sleep(0.02 * seed)  # moves the kill through the phases of the recovery
                os.kill(self.pid_of(directory, "quick-worker-2"), signal.SIGKILL)
                run = self.finish(started)
                self.assert_trained(run, recoveries=1)
                self.assertEqual(self.final_weights(run), expected)
                self.check_survivors(run, [1, 2])

    def test_frozen_worker_is_noticed_and_replaced(self):
        self.check(lambda seed: f"stop=worker-1@step={25 + seed}", [1])


class LowPrecision(LocalTest):
    """The loss scale and the steps that were skipped because of it are a part of the state."""

    def train(self, *arguments, recoveries=0):
        run = self.run_job(training_manifest(workers=2, steps=STEPS), *arguments)
        self.assert_trained(run, recoveries)
        return run

    @long
    def test_digits_are_learnt_in_16_bits_whoever_is_killed(self):
        weights = set()
        for precision in ("Float32", "BFloat16", "Float16"):
            field = ("--set", f"training.precision={precision}")
            whole = self.train(*field)
            self.assertGreater(whole.summary["testAccuracy"], 0.8, precision)
            self.assertEqual(whole.summary["stepsSkipped"], 0, precision)
            weights.add(self.final_weights(whole))
            killed = self.train(*field, "--chaos", "kill=worker-1@step=25", recoveries=1)
            self.assertEqual(self.final_weights(killed), self.final_weights(whole), precision)
        self.assertEqual(len(weights), 3, "two precisions computed the same numbers")

    def test_steps_too_large_for_float16_are_skipped_and_counted_once(self):
        """Labels of up to 9 in a batch of 8 times 2^16 are above what Float16 can hold. Steps so
        short are over before anybody is killed in the 45th, unless there are many."""
        fields = []
        for change in ("precision=Float16", "globalBatchSize=8", "steps=2000",
                       "loss={type: MeanSquaredError}",
                       "model.layers=[{type: Flatten}, {type: Dense, units: 1}]"):
            fields += ["--set", f"training.{change}"]
        whole = self.train(*fields)
        skipped = whole.summary["stepsSkipped"]
        self.assertGreater(skipped, 0, whole.output)
        self.assertIn(f", {skipped} skipped (gradients too large for Float16)", whole.output)
        self.assertIn("step skipped, because its gradients are not finite in Float16",
                      whole.pod_log("quick-worker-1"))
        for victims in ("worker-1", "worker-0+worker-1"):
            run = self.train(*fields, "--chaos", f"kill={victims}@step=45", recoveries=1)
            self.assertEqual(run.summary["stepsSkipped"], skipped, victims)
            self.assertEqual(self.final_weights(run), self.final_weights(whole), victims)


class FreezeThatNoPeerSees(LocalTest):
    def test_lone_worker(self):
        run = self.run_job(training_manifest(workers=1, steps=STEPS),
                           "--chaos", "stop=worker-0@step=45")
        self.assert_trained(run)
        self.assert_hung(run)

    def test_whole_gang(self):
        run = self.run_job(training_manifest(steps=STEPS),
                           "--chaos", "stop=worker-0+worker-1+worker-2@step=45")
        self.assert_trained(run)
        self.assert_hung(run)

    def test_program_of_ones_own(self):
        mark = self.scratch / "second"
        program = f"[ -e {mark} ] && exit 0; touch {mark}; exec sleep 1000"
        started = self.start(command_manifest(["sh", "-c", program], workers=1, backoff_limit=1,
                                              grace=1))
        self.wait_for(mark.exists)
        time.sleep(1)  # it has answered by then
        frozen = os.getpgid(self.pid_of(started[1], "command-worker-0"))
        os.killpg(frozen, signal.SIGSTOP)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assert_hung(run)

    def test_pod_before_its_first_answer(self):
        run = self.run_job(command_manifest(["sleep", "2"], workers=1, backoff_limit=1, grace=1),
                           "--chaos", "stop=worker-0@time=0s")
        self.assertEqual(run.exit_code, 0, run.output)
        # A quick one has answered once by then: which of the two came first is the machine's.
        self.assert_hung(run, "has never answered|does not answer any more")

    def assert_hung(self, run, words="does not answer any more"):
        self.assertIn("hang", [each["cause"].lower() for each in run.summary["restarts"]])
        self.assertRegex(run.output, words)


class StopWhileALostRankIsReplaced(LocalTest):
    def stop_after(self, victims, successor):
        started = self.start(training_manifest(workers=2, steps=1000000, every_steps=0), "--chaos",
                             f"kill={victims}@step=60")
        self.wait_for((started[1] / "pods" / successor).exists)
        return self.stop(started)

    def test_whoever_is_left_saves(self):
        for lost, left in ((0, 1), (1, 0)):
            run = self.stop_after(f"worker-{lost}", f"quick-worker-{lost}-r1")
            self.assertEqual(run.exit_code, 130, run.output)
            words = run.directory / "pods" / f"quick-worker-{left}" / "termination-message"
            self.assertEqual(json.loads(words.read_text())["lastStep"],
                             run.summary["lastCheckpointStep"], run.output)

    def test_what_nobody_is_left_to_save_is_told(self):
        run = self.stop_after("worker-0+worker-1", "quick-worker-1-r1")
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertGreaterEqual(run.summary["steps"], 60, run.output)
        self.assertEqual(run.summary["reason"], f"stopped by SIGINT, and no process was left "
                                                f"to save step {run.summary['steps']}")
        self.assertIn("the training is lost", run.output)


class Budget(LocalTest):
    def test_used_up_budget_fails_the_job_with_its_cause(self):
        run = self.run_job(training_manifest(backoff_limit=0), "--chaos", "kill=worker-1@step=20")
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("worker-1", run.output)
        self.assertIn("SIGKILL", run.output)
        self.assertIn("backoffLimit", run.output)


class Determinism(LocalTest):
    engine = None

    @long
    def test_two_runs_end_in_equal_checkpoints(self):
        first = self.run_job(training_manifest(steps=40))
        second = self.run_job(training_manifest(steps=40))
        self.assert_trained(first)
        self.assert_trained(second)
        self.assertEqual(self.final_weights(first), self.final_weights(second))


if __name__ == "__main__":
    unittest.main(verbosity=2)
