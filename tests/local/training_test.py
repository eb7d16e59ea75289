"""What a run of the built-in trainer tells on its way and at its end."""

import contextlib
import os
import re
import signal
import subprocess
import unittest

from harness import (
    BIN, LocalTest, can_mount_tmpfs, command_manifest, samples_after, training_manifest)

EPOCH_STEPS = 94  # 9,000 training samples in batches of 96


def slow_manifest(steps):
    """A network that takes a second to test: long enough to be asked on the way how it is."""
    manifest = training_manifest(steps=steps)
    for quick, slow in (("units: 32", "units: 2048"), ("testSamples: 1000", "testSamples: 9000")):
        assert quick in manifest
        manifest = manifest.replace(quick, slow)
    return manifest


class Telling(LocalTest):
    engine = None  # some networks are large

    def test_each_data_epoch_has_a_line_and_an_entry(self):
        run = self.run_job(training_manifest(), "--set", "training.steps=null",
                           "--set", "training.epochs=3")
        self.assert_trained(run)
        history = run.summary["history"]
        self.assertEqual([entry["dataEpoch"] for entry in history], [0, 1, 2])
        self.assertEqual([entry["step"] for entry in history],
                         [EPOCH_STEPS, 2 * EPOCH_STEPS, 3 * EPOCH_STEPS])
        self.assertGreater(history[0]["loss"], history[2]["loss"])
        self.assertEqual({entry["sampleCount"] for entry in history}, {9000})
        self.assertAlmostEqual(run.summary["loss"], history[2]["loss"], places=9)
        for number in (1, 2, 3):
            self.assertRegex(run.output, rf"data epoch {number} of 3: loss \d\.\d{{4}}, ")

    def test_data_epochs_that_are_over_in_a_moment_are_told_all(self):
        run = self.run_job(training_manifest(steps=60, every_steps=0, workers=1), "--set",
                           "training.dataset.testSamples=9904")  # a step each
        self.assert_trained(run)
        self.assertEqual([epoch["dataEpoch"] for epoch in run.summary["history"]],
                         list(range(60)))
        self.assertEqual(run.output.count("  data epoch "), 60)

    def test_address_of_the_metrics_is_that_of_the_run(self):
        run = self.run_job(training_manifest(steps=20))
        self.assert_trained(run)
        port = re.search(r"status and metrics on port (\d+)", run.output)[1]
        for pod in run.summary["pods"]:
            self.assertRegex(pod["metrics"], rf"^http://127\.\d+\.\d+\.\d+:{port}/metrics$")

    def test_training_loss_is_that_of_the_last_step_in_every_run(self):
        losses = {self.run_job(training_manifest(steps=50)).summary["loss"] for _ in range(3)}
        self.assertEqual(len(losses), 1, losses)

    def test_finished_run_says_that_nothing_is_left(self):
        manifest = slow_manifest(steps=40)
        self.assert_trained(self.run_job(manifest, name="again"))
        again = self.run_job(manifest, name="again")
        self.assertEqual(again.exit_code, 0, again.output)
        self.assertIn("an earlier run in this folder succeeded after 40 of 40 steps", again.output)
        self.assertIn("nothing was left to train", again.output)
        self.assertNotIn("ProgressLost", again.output)

    def test_job_made_shorter_is_told_what_it_asked_for_and_how_to_ask_for_more(self):
        one_epoch_is_16_steps = "training.dataset.testSamples=8464"
        manifest = training_manifest(steps=40)
        run = self.run_job(manifest, "--set", one_epoch_is_16_steps, name="longer")
        self.assert_trained(run)
        manifest = re.sub("steps: 40", "epochs: 1", manifest)
        again = self.run_job(manifest, "--set", one_epoch_is_16_steps, name="longer")
        self.assertEqual(again.exit_code, 0, again.output)
        self.assertIn("40 before this run, although the job asks for 16: nothing was left to train",
                      again.output)
        self.assertIn("spec.training.epochs=N, N above 2\n", again.output)

    def test_resumed_run_says_from_where_and_goes_on(self):
        self.assert_trained(self.run_job(slow_manifest(steps=40), name="first"))
        process, _, summary = self.start_resumed(self.scratch / "first",
                                                 "--set", "training.steps=60")
        run = self.finish((process, self.scratch / "first", summary))
        self.assert_trained(run)
        self.assertEqual(run.summary["steps"], 60)
        self.assertIn("training resumed from the checkpoint of step 40", run.output)


@unittest.skipUnless(can_mount_tmpfs(), "a small disk cannot be mounted: needs root")
class FullDisk(LocalTest):
    def setUp(self):
        super().setUp()
        self.disk = self.scratch / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", self.disk], check=True)

    def tearDown(self):
        subprocess.run(["umount", self.disk], check=True)
        super().tearDown()

    def test_disk_that_is_full_at_the_start_ends_nothing(self):
        """The claim of the folder finds no room: the first save that does makes it."""
        filler = self.disk / "filler"
        filler.write_bytes(bytes(4 << 20))
        started = self.start(training_manifest(workers=1), "--set",
                             f"training.checkpoint.directory={self.disk}/checkpoints")
        _, directory, _ = started
        log = directory / "pods" / "quick-worker-0" / "pod.log"
        self.wait_for(lambda: log.exists() and "directory could not be claimed" in log.read_text())
        filler.unlink()
        run = self.finish(started)
        self.assert_trained(run)
        self.assertEqual(run.summary["restarts"], [])

    def test_stop_that_finds_the_disk_full_is_a_failure(self):
        (self.disk / "filler").write_bytes(bytes((4 << 20) - (120 << 10)))
        run = self.stop(self.start_until_trained(
            training_manifest(steps=100000, every_steps=0, workers=1), "--set",
            f"training.checkpoint.directory={self.disk}/checkpoints"))
        self.assert_unsaved(run)

    def test_last_words_find_room_on_a_disk_that_has_become_full(self):
        started = self.start_until_trained(
            training_manifest(steps=100000, every_steps=0, workers=1), name=self.disk.name)
        with contextlib.suppress(OSError), open(self.disk / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        run = self.stop(started)
        self.assert_unsaved(run)
        self.assertIn("the last checkpoint could not be written",
                      run.summary["pods"][0]["message"])

    def assert_unsaved(self, run):
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertRegex(run.summary["reason"], "^stopped by SIGINT, and the checkpoint could not "
                         "be written by quick-worker-0: .*No space left on device")
        self.assertIn("No space left on device", run.summary["checkpointError"])


class Stopping(LocalTest):
    engine = None

    def test_samples_of_a_stop_are_those_of_its_last_step(self):
        run = self.stop(self.start_until_trained(
            training_manifest(steps=100000, every_steps=0), "--quiet"))
        self.assertEqual(run.exit_code, 130, run.output)
        self.assertGreater(run.summary["steps"], 0, run.output)
        self.assertEqual(run.summary["samplesConsumed"], samples_after(run.summary["steps"]),
                         run.output)

    def test_stop_without_a_checkpoint_says_so(self):
        started = self.start(training_manifest(steps=100000, every_steps=0), "--quiet")
        process, directory, _ = started
        self.wait_for(lambda: 3 == sum(log.stat().st_size > 0
                                       for log in directory.glob("pods/*/pod.log")))
        for worker in range(3):
            os.kill(self.pid_of(directory, f"quick-worker-{worker}"), signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 130, run.output)
        self.assertRegex(run.output, "no checkpoint.* starts at step 0")

    def test_stop_after_a_checkpoint_tells_how_to_go_on(self):
        started = self.start(training_manifest(steps=100000))
        process, directory, _ = started
        self.wait_for(lambda: list(directory.glob("checkpoints/step-*")))
        process.send_signal(signal.SIGINT)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 130, run.output)
        self.assertIn(f"lockstep run --resume {directory}", run.output)
        self.assertRegex(run.output, r"stopping after a checkpoint, at most \d+ s;")


class OtherTerminal(LocalTest):
    def lockstep(self, *arguments):
        return subprocess.run([BIN / "lockstep", *arguments], cwd=self.scratch,
                              capture_output=True, text=True, timeout=60)

    def test_run_is_listed_read_and_stopped(self):
        started = self.start(command_manifest(["sh", "-c", "echo hello; exec sleep 1000"]))
        process, directory, _ = started
        for pod in ("command-worker-0", "command-worker-1"):
            self.wait_for(lambda pod=pod: re.search(
                rf"\[{pod}\] .*hello", self.lockstep("logs", directory).stdout))
        self.assertRegex(self.lockstep("ps", self.scratch).stdout,
                         rf"command +running +- +{process.pid}\n")
        stopped = self.lockstep("stop", directory)
        self.assertEqual(stopped.returncode, 0, stopped.stderr)
        self.assertEqual(self.finish(started).exit_code, 130)
        self.assertIn("stopped", stopped.stdout)
        again = self.lockstep("stop", directory)
        self.assertEqual(again.returncode, 0)
        self.assertIn("is not running", again.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
