"""strategy: ParameterServer: ps keep the model, workers pull and push, each at its own pace. What
is lost is replaced alone."""

import os
import re
import unittest

from harness import LocalTest, samples_after, training_manifest

STEPS = 600
KILLS = int(os.environ.get("LOCKSTEP_PS_KILLS", "0"))  # even; 0 leaves out ManyKills
EVERY_STEPS = 100
CONVOLUTION = """\
      - {type: Conv2D, filters: 32, kernelSize: 3, activation: relu}
      - {type: MaxPooling2D, poolSize: 2}
      - {type: Flatten}
"""
WORKERS = 2
PS = 2


def manifest(ps=PS, **changes):
    text = training_manifest(**{"workers": WORKERS, "steps": STEPS, "every_steps": EVERY_STEPS,
                                **changes})
    text = text.replace("spec:\n", "spec:\n  strategy: ParameterServer\n", 1)
    return text.replace("  runPolicy:", f"  - name: ps\n    replicas: {ps}\n  runPolicy:", 1)


class ParameterServerCase(LocalTest):
    def pods(self, run):
        return sorted(pod["name"] for pod in run.summary["pods"])

    def assert_learned(self, run, steps=STEPS, accuracy=0.9):
        """Every update was made once: the ps count them, and worker 0 compares."""
        self.assert_trained(run)
        self.assertEqual(run.summary["steps"], steps)
        self.assertEqual(run.summary["samplesConsumed"], samples_after(steps))
        self.assertEqual(run.summary["samplesExpected"], samples_after(steps))
        self.assertGreater(run.summary["testAccuracy"], accuracy)

    def assert_nothing_was_lost(self, run):
        self.assertEqual(run.summary["stepsRepeated"], 0, run.output)
        self.assertNotIn("ProgressLost", run.output)


class OnLibTorch(ParameterServerCase):
    """What is shipped."""

    engine = None

    def test_workers_share_the_steps_and_the_digits_are_learned(self):
        run = self.run_job(manifest())
        self.assert_learned(run)
        self.assertEqual(self.pods(run), ["quick-ps-0", "quick-ps-1", "quick-worker-0",
                                          "quick-worker-1"])
        ends = [samples_after(epoch["step"]) for epoch in run.summary["history"][:-1]]
        self.assertEqual(ends, [9000 * (epoch + 1) for epoch in range(len(ends))],
                         "each data epoch ends with the job's step")

    def test_killed_worker_is_replaced_alone_and_its_share_is_done_once(self):
        run = self.run_job(manifest(), "--chaos", "kill=worker-1@step=250")
        self.assert_learned(run)
        self.assertEqual(self.pods(run), ["quick-ps-0", "quick-ps-1", "quick-worker-0",
                                          "quick-worker-1", "quick-worker-1-r1"])
        self.assert_nothing_was_lost(run)
        done = re.search(r"shares_done=(\d+)", run.pod_log("quick-worker-1-r1"))
        self.assertGreater(int(done.group(1)), 0)

    def test_killed_ps_loses_nothing_and_is_replaced_alone(self):
        run = self.run_job(manifest(), "--chaos", "kill=ps-1@step=150,kill=ps-0@step=400")
        self.assert_learned(run)
        self.assertEqual(self.pods(run), ["quick-ps-0", "quick-ps-0-r1", "quick-ps-1",
                                          "quick-ps-1-r1", "quick-worker-0", "quick-worker-1"])
        self.assert_nothing_was_lost(run)
        self.assertIn("ps-0 (killed): each shard has two copies again after", run.output)


if KILLS:

    class ManyKills(ParameterServerCase):
        """What is shipped, for scripts/test.sh --soak."""

        engine = None

        def assert_learned_through_deaths(self, role):
            """Two pods are killed in turn, KILLS times in all."""
            deaths = [f"kill={role}-{death % 2}@step={100 + 110 * death}" for death in range(KILLS)]
            steps = 200 + 110 * KILLS
            text = manifest(steps=steps, every_steps=100, backoff_limit=100)
            text = text.replace("      - {type: Flatten}\n", CONVOLUTION, 1)
            run = self.run_job(text, "--chaos", ",".join(deaths))
            self.assert_learned(run, steps=steps)
            other = "ps" if role == "worker" else "worker"
            suffixes = ["", *(f"-r{number}" for number in range(1, KILLS // 2 + 1))]
            successors = [f"quick-{role}-{index}{suffix}" for index in range(2)
                          for suffix in suffixes]
            self.assertEqual(self.pods(run), sorted(successors + [f"quick-{other}-0",
                                                                  f"quick-{other}-1"]))

        def test_ps_killed_many_times(self):
            self.assert_learned_through_deaths("ps")

        def test_workers_killed_many_times(self):
            self.assert_learned_through_deaths("worker")


class ParameterServer(ParameterServerCase):
    """Who is lost, and who counts what: the engine is not the point."""

    def assert_one_truth(self, run, steps):
        """The console, the history and the training loss tell of the batches of all workers."""
        history = run.summary["history"]
        self.assertEqual([(epoch["dataEpoch"], epoch["step"]) for epoch in history],
                         [(epoch, min(94 * (epoch + 1), steps)) for epoch in range(len(history))])
        self.assertEqual(history[-1]["step"], steps)
        self.assertEqual([epoch["sampleCount"] for epoch in history[:-1]],
                         [9000] * (len(history) - 1), run.output)
        told = re.findall(r"data epoch (\d+): loss (\S+),", run.output)
        self.assertEqual(told, [(str(epoch["dataEpoch"] + 1), f"{epoch['loss']:.4f}")
                                for epoch in history], run.output)
        self.assertEqual(history[-1]["loss"], run.summary["loss"])

    def test_data_epochs_are_those_of_all_workers(self):
        self.assert_one_truth(self.run_job(manifest(steps=400)), 400)

    def test_data_epochs_are_told_whoever_is_lost(self):
        run = self.run_job(manifest(), "--chaos", "kill=worker-1@step=150,kill=worker-0@step=350")
        self.assert_learned(run)
        self.assert_one_truth(run, STEPS)

    def test_killed_first_worker_is_replaced_alone(self):
        run = self.run_job(manifest(), "--chaos", "kill=worker-0@step=250")
        self.assert_learned(run)
        self.assertEqual(self.pods(run), ["quick-ps-0", "quick-ps-1", "quick-worker-0",
                                          "quick-worker-0-r1", "quick-worker-1"])
        self.assert_nothing_was_lost(run)

    def test_ps_and_workers_lost_at_once_are_replaced_alone(self):
        run = self.run_job(manifest(), "--chaos",
                           "kill=ps-0+worker-0@step=150,kill=worker-0+worker-1@step=350")
        self.assert_learned(run)
        self.assertEqual(self.pods(run), ["quick-ps-0", "quick-ps-0-r1", "quick-ps-1",
                                          "quick-worker-0", "quick-worker-0-r1",
                                          "quick-worker-0-r2", "quick-worker-1",
                                          "quick-worker-1-r1"])
        self.assert_nothing_was_lost(run)

    def test_frozen_worker_is_replaced_alone(self):
        run = self.run_job(manifest(), "--chaos", "stop=worker-1@step=150")
        self.assert_learned(run)
        self.assertEqual(self.pods(run), ["quick-ps-0", "quick-ps-1", "quick-worker-0",
                                          "quick-worker-1", "quick-worker-1-r1"])

    def test_frozen_ps_is_replaced_alone(self):
        run = self.run_job(manifest(), "--chaos", "stop=ps-1@step=150")
        self.assert_learned(run)
        self.assertEqual(self.pods(run), ["quick-ps-0", "quick-ps-1", "quick-ps-1-r1",
                                          "quick-worker-0", "quick-worker-1"])

    def test_bound_of_no_step_and_replicas_and_three_ps(self):
        run = self.run_job(manifest(ps=3, workers=3, steps=301), "--set",
                           "training.maxStaleness=0", "--set", "training.replicas=2")
        self.assert_trained(run)
        self.assertEqual(run.summary["samplesConsumed"], samples_after(301))

    def test_stopped_job_goes_on_from_its_last_checkpoint(self):
        started = self.start_until_trained(manifest(steps=200_000))
        _, directory, _ = started
        self.wait_for(lambda: list((directory / "checkpoints").glob("step-*")))
        stopped = self.stop(started)
        self.assertGreater(stopped.summary["lastCheckpointStep"], 0)
        if stopped.summary["steps"] == stopped.summary["lastCheckpointStep"]:  # by chance
            self.assertEqual(stopped.exit_code, 130, stopped.output)
        else:
            self.assertEqual(stopped.exit_code, 1, stopped.output)
            self.assertNotIn("after a checkpoint", stopped.output)
            self.assertIn(f"step {stopped.summary['steps']} was not saved: ParameterServer "
                          "writes no checkpoint at a stop", stopped.summary["reason"])
        run = self.finish(self.start_resumed(stopped.directory, "--set", "training.steps=" + str(
            stopped.summary["lastCheckpointStep"] + 100)))
        self.assert_trained(run)

    def test_job_made_shorter_has_nothing_left_to_train(self):
        run = self.run_job(manifest(steps=120), name="longer")
        self.assert_trained(run)
        for settings in (["training.steps=60"], ["training.steps=null", "training.epochs=1"]):
            options = [part for setting in settings for part in ("--set", setting)]
            again = self.finish(self.start_resumed(run.directory, *options))
            self.assertEqual(again.exit_code, 0, again.output)
            self.assertIn("120 before this run", again.output)
            self.assertIn("nothing was left to train", again.output)

    def test_loss_that_is_no_number_fails_the_job(self):
        text = manifest().replace("{type: Adam}", "{type: SGD, learningRate: 1000, momentum: 0.99}")
        run = self.run_job(text.replace("scale: 0.00392156862745098", "scale: 1000000"))
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("the model has diverged", run.output)

    def test_both_ps_lost_at_once_begin_the_gang_again_at_its_checkpoint(self):
        run = self.run_job(manifest(), "--chaos", "kill=ps-0+ps-1@step=350")
        self.assert_learned(run)
        self.assertIn("quick-worker-0-a1", self.pods(run))
        self.assertIn("resumed from checkpoint", run.pod_log("quick-worker-0-a1"))

    def test_the_only_ps_lost_begins_the_gang_again_at_its_checkpoint(self):
        run = self.run_job(manifest(ps=1), "--chaos", "kill=ps-0@step=350")
        self.assert_learned(run)
        self.assertIn("quick-worker-0-a1", self.pods(run))
        self.assertEqual(run.summary["restarts"], [{"cause": "killed", "count": 1}])


if __name__ == "__main__":
    unittest.main()
