"""strategy: Independent: a model for each rank. One is lost: no other one hears of it."""

import os
import pathlib
import shutil
import signal
import unittest

from harness import LocalTest, processes_below, training_manifest
from lanes import long

# Long enough for a fault in the middle: alone, a rank takes a step in half a millisecond.
STEPS = 1000
EVERY_STEPS = 100

# Of the 9,000 training samples each of three ranks has 3,000: 31 batches of 96 and one of 24.
SAMPLES_OF_A_RANK = STEPS // 32 * 3000 + STEPS % 32 * 96


def manifest(**changes):
    text = training_manifest(**{"steps": STEPS, "every_steps": EVERY_STEPS, **changes})
    return text.replace("spec:\n", "spec:\n  strategy: Independent\n", 1)


class Independent(LocalTest):
    undisturbed = None  # summary and weights by rank

    def weights(self, run):
        """The bytes of the newest checkpoint of each rank's model."""
        models = {}
        for folder in (run.directory / "checkpoints").glob("rank-*"):
            newest = sorted(folder.glob("step-*/tensors.safetensors"))[-1]
            models[int(folder.name.split("-")[1])] = newest.read_bytes()
        return models

    def assert_like_undisturbed(self, run):
        if Independent.undisturbed is None:
            whole = self.run_job(manifest())
            self.assert_trained(whole)
            Independent.undisturbed = whole.summary, self.weights(whole)
        summary, weights = Independent.undisturbed
        self.assert_trained(run)
        self.assertEqual(self.weights(run), weights)
        told, whole = ([{**model, "firstStep": None} for model in of["models"]]
                       for of in (run.summary, summary))
        self.assertEqual(told, whole)
        for name in ("testLoss", "testAccuracy", "loss", "steps", "samplesConsumed"):
            self.assertEqual(run.summary[name], summary[name], name)
        losses = {epoch["dataEpoch"]: epoch["loss"] for epoch in summary["history"]}
        for epoch in run.summary["history"]:  # of a resumed run those since
            self.assertEqual(epoch["loss"], losses[epoch["dataEpoch"]], "of model 0")

    def assert_losses_are_of_each(self, stopped, count):
        """Of a job that was stopped: every model has said what it came to, and none was tested."""
        summary = stopped.summary
        models = summary["models"]
        self.assertEqual([model["hasResult"] for model in models], count * [True], stopped.output)
        self.assertEqual(len({model["trainingLoss"] for model in models}), count, "all differ")
        mean = sum(model["trainingLoss"] for model in models) / count
        self.assertAlmostEqual(summary["loss"], mean, places=5)
        self.assertEqual([model["testLoss"] for model in models], count * [None])
        self.assertIsNone(summary["testLoss"])
        self.assertEqual(summary["steps"], max(model["steps"] for model in models))

    def pods(self, run):
        return sorted(pod["name"] for pod in run.summary["pods"])

    def test_each_rank_has_a_model_and_a_result_of_its_own(self):
        run = self.run_job(manifest())
        self.assert_like_undisturbed(run)
        self.assertEqual(run.summary["samplesConsumed"], 3 * SAMPLES_OF_A_RANK)
        self.assertEqual(run.summary["samplesExpected"], 3 * SAMPLES_OF_A_RANK)
        models = run.summary["models"]
        self.assertEqual([model["rank"] for model in models], [0, 1, 2])
        self.assertEqual(len({model["testLoss"] for model in models}), 3, "all differ")
        for key in ("testLoss", "testAccuracy"):
            mean = sum(model[key] for model in models) / 3
            self.assertAlmostEqual(run.summary[key], mean, places=5)
        self.assertGreater(run.summary["testAccuracy"], 0.8)
        self.assertIn("mean of 3 models", run.output)
        self.assertIn("  model 2 ", run.output)
        self.assertIn("  model 0: data epoch 1: loss ", run.output)
        self.assertEqual(len(set(self.weights(run).values())), 3)
        self.assertEqual(list((run.directory / "checkpoints").glob("step-*")), [])

    def test_killed_rank_goes_on_from_its_own_checkpoint_and_no_other_stops(self):
        started = self.start(manifest())
        _, directory, _ = started
        # By what is there and not by a step: a busy disk takes longer than a thousand steps.
        self.wait_for(lambda: list((directory / "checkpoints" / "rank-1").glob("step-*")))
        os.kill(self.pid_of(directory, "quick-worker-1"), signal.SIGKILL)
        run = self.finish(started)
        self.assert_trained(run, recoveries=1)
        self.assert_like_undisturbed(run)
        self.assertEqual(self.pods(run), ["quick-worker-0", "quick-worker-1", "quick-worker-1-r1",
                                          "quick-worker-2"])
        for other in (0, 2):
            log = run.pod_log(f"quick-worker-{other}")
            self.assertNotIn("the rendezvous has ended", log)
            self.assertNotIn("resumed from checkpoint", log)
        self.assertIn("resumed from checkpoint", run.pod_log("quick-worker-1-r1"))

    def test_rank_that_waits_for_the_others_is_replaced_as_well(self):
        # The others have trained before the second is back, as it begins anew, and one of them is
        # lost meanwhile.
        run = self.run_job(manifest(every_steps=STEPS), "--chaos",
                           f"kill=worker-1@step={STEPS * 3 // 5},kill=worker-0@phase=rendezvous")
        self.assert_trained(run, recoveries=2)
        self.assert_like_undisturbed(run)
        self.assertEqual(self.pods(run), ["quick-worker-0", "quick-worker-0-r1", "quick-worker-1",
                                          "quick-worker-1-r1", "quick-worker-2"])

    def test_stop_saves_every_model_and_each_goes_on(self):
        started = self.start_until_trained(manifest())
        stopped = self.stop(started)
        self.assertEqual(stopped.exit_code, 130, stopped.output)
        self.assertEqual(sorted(self.weights(stopped)), [0, 1, 2])
        self.assert_losses_are_of_each(stopped, 3)
        resumed = self.finish(self.start_resumed(stopped.directory))
        self.assert_like_undisturbed(resumed)
        self.assertEqual([model["firstStep"] for model in resumed.summary["models"]],
                         [model["steps"] for model in stopped.summary["models"]])

    def test_models_of_unequal_length_are_each_told_of_their_own(self):
        # Of 9,001 samples the first rank has one more: a batch of its own in every data epoch.
        text = manifest().replace(f"steps: {STEPS}\n", "epochs: 2\n", 1)
        text = text.replace("globalBatchSize: 96", "globalBatchSize: 1000")
        run = self.run_job(text.replace("testSamples: 1000", "testSamples: 999"))
        self.assert_trained(run)
        self.assertEqual((run.summary["steps"], run.summary["stepsTotal"]), (8, 8))
        self.assertEqual([(model["steps"], model["stepsTotal"]) for model in run.summary["models"]],
                         [(8, 8), (6, 6), (6, 6)])
        self.assertIn("8 of 8, for the model with the most steps", run.output)
        self.assertIn("  model 2       6 of 6 steps; ", run.output)

    def test_failed_job_tells_of_each_model_what_is_known_of_it(self):
        run = self.run_job(manifest(backoff_limit=0, steps=1000000), "--chaos",
                           "kill=worker-1@step=1000")
        self.assertEqual(run.exit_code, 1, run.output)
        models = run.summary["models"]
        self.assertEqual([model["rank"] for model in models], [0, 1, 2])
        self.assertEqual([model["hasResult"] for model in models], [True, False, True], run.output)
        self.assertIsNone(models[1]["trainingLoss"])
        self.assertGreater(models[1]["steps"], 0)
        for name in ("loss", "testLoss", "testAccuracy"):
            self.assertIsNone(run.summary[name], "it would be another model's")
        self.assertIn(f"  model 1       {models[1]['steps']} of 1000000 steps; "
                      "training loss unknown\n", run.output)

    def test_stopped_processes_of_a_pod_are_told_apart(self):
        text = manifest(workers=2, steps=1000000).replace(
            "  - name: worker\n", "  - name: worker\n    processes: 2\n")
        started = self.start(text)
        self.wait_for(lambda: len(list((started[1] / "checkpoints").glob("rank-*/step-*"))) >= 4)
        stopped = self.stop(started)
        self.assertEqual(stopped.exit_code, 130, stopped.output)
        models = stopped.summary["models"]
        self.assertEqual([model["rank"] for model in models], [0, 1, 2, 3])
        self.assertTrue(all(model["steps"] > 0 for model in models), models)
        self.assertIsNone(stopped.summary["loss"], "it would be of one of them")
        self.assertIn("training loss unknown", stopped.output)

    @long
    def test_killed_process_of_a_pod_has_a_successor_and_the_others_keep_theirs(self):
        text = manifest(workers=2).replace("  - name: worker\n",
                                           "  - name: worker\n    processes: 2\n")
        started = self.start(text)
        _, directory, _ = started
        self.wait_for(lambda: len(list((directory / "checkpoints").glob("rank-*/step-*"))) >= 4)
        before = self.ranks(directory)
        self.assertEqual(sorted(before), [0, 1, 2, 3])
        os.kill(before[3], signal.SIGKILL)
        self.wait_for(lambda: self.ranks(directory).get(3, before[3]) != before[3])
        after = self.ranks(directory)
        self.assertEqual({rank: after[rank] for rank in (0, 1, 2)},
                         {rank: before[rank] for rank in (0, 1, 2)})
        run = self.finish(started)
        self.assert_trained(run)
        self.assertEqual(self.pods(run), ["quick-worker-0", "quick-worker-1"])
        self.assertEqual([model["rank"] for model in run.summary["models"]], [0, 1, 2, 3])
        [loss] = run.summary["recoveries"]
        self.assertEqual(loss["lostRank"], 3)
        self.assertGreater(loss["killToNextStepSeconds"], 0.05, "an engine is loaded first")
        self.assertGreaterEqual(run.summary["timeLostSeconds"], loss["killToNextStepSeconds"])
        again = self.run_job(text)
        self.assertEqual(self.weights(run), self.weights(again))
        self.assertEqual(*([epoch["loss"] for epoch in one.summary["history"]]
                           for one in (run, again)), "of model 0")

    def ranks(self, directory):
        """Process ids of the trainers of two pods of two, by rank."""
        found = {}
        for pid, command in processes_below(directory).items():
            if " --process " in command:
                try:
                    variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                except OSError:
                    continue  # it has ended since it was listed
                pod = next((v for v in variables if v.startswith(b"LOCKSTEP_POD=")), b"").decode()
                if not pod:
                    continue  # it is ending: its memory has been given up
                local = int(command.split(" --process ")[1].split()[0])
                found[2 * int(pod.split("-worker-")[1].split("-")[0]) + local] = pid
        return found


class Resumed(LocalTest):
    def trained(self, text):
        run = self.run_job(text, "--set", "training.steps=20")
        self.assert_trained(run)
        return run.directory

    def resume(self, directory, *settings, exit_code=1):
        options = [part for setting in settings for part in ("--set", setting)]
        run = self.finish(self.start_resumed(directory, *options))
        self.assertEqual(run.exit_code, exit_code, run.output)
        return run.output

    def test_models_without_a_checkpoint_are_named(self):
        directory = self.trained(manifest())
        shutil.rmtree(directory / "checkpoints" / "rank-2")
        run = self.finish(self.start_resumed(directory, "--set", "training.steps=40"))
        self.assert_trained(run)
        self.assertIn("warning: model 2 starts at step 0, because it has no checkpoint",
                      run.output)
        self.assertEqual([model["firstStep"] for model in run.summary["models"]], [20, 20, 0])
        self.assertIsNone(run.summary["restoredStep"])

    def test_seed_is_told_as_the_job_has_it(self):
        output = self.resume(self.trained(manifest()), "training.seed=5", exit_code=2)
        self.assertIn("spec.training.seed: 5 found, the saved state was made with 1", output)
        self.assertNotIn("6 found", output)

    def test_one_model_is_not_gone_on_with_by_several_nor_several_by_one(self):
        several = self.resume(self.trained(training_manifest()), "strategy=Independent",
                              exit_code=2)
        self.assertIn("spec.strategy: Independent found, expected a different strategy: the "
                      "checkpoint holds one model for all ranks", several)
        one = self.resume(self.trained(manifest()), "strategy=MultiWorkerMirrored", exit_code=2)
        self.assertIn("spec.strategy: MultiWorkerMirrored found, expected Independent: the "
                      "checkpoint holds the model of one rank", one)

    def test_other_number_of_ranks_is_refused_with_both(self):
        output = self.resume(self.trained(manifest()), "roles[0].replicas=2", exit_code=2)
        self.assertIn("number of ranks: 2 found, the saved state was made with 3", output)


if __name__ == "__main__":
    unittest.main()
