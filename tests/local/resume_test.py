"""Going on with an earlier run, and what a try that fails leaves of it."""

import hashlib
import json
import os
import shutil
import subprocess
import unittest

from harness import BIN, RUN_TIMEOUT_SECONDS, LocalTest, command_manifest, training_manifest


class Resumed(LocalTest):
    def resume(self, directory, *arguments):
        return self.finish(self.start_resumed(directory, *arguments))

    def trained(self):
        """The folder of a run that came to its end, with checkpoints of steps 20 and 40."""
        run = self.run_job(training_manifest(workers=2, steps=40), name="first")
        self.assert_trained(run)
        return run.directory

    def checkpoints(self, directory, folder="checkpoints"):
        return sorted((directory / folder).glob("step-*"))

    def damage(self, checkpoint):
        os.truncate(checkpoint / "tensors.safetensors", 100)


class Refused(Resumed):
    def test_a_setting_that_does_not_fit_leaves_the_run_as_it_was(self):
        directory = self.trained()
        before = {name: (directory / name).read_text() for name in ("job.json", "summary.json")}
        run = self.resume(directory, "--set", "training.seed=5")
        self.assertEqual(run.exit_code, 2, run.output)
        self.assertRegex(run.output,
                         "step-00000040: the newest checkpoint does not fit this job; .*"
                         "spec.training.seed: 5 found, the saved state was made with")
        self.assertNotIn("pods listen", run.output)
        for name, text in before.items():
            self.assertEqual((directory / name).read_text(), text, name)
        again = self.resume(directory, "--set", "training.steps=60")
        self.assert_trained(again)
        self.assertEqual(again.summary["steps"], 60)
        self.assertEqual(json.loads((directory / "summary.json").read_text())["steps"], 60)

    def test_checkpoints_that_are_all_damaged_are_not_trained_over(self):
        directory = self.trained()
        for checkpoint in self.checkpoints(directory):
            self.damage(checkpoint)
        run = self.resume(directory, "--set", "training.steps=60")
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertRegex(run.output,
                         r"no checkpoint in .*/checkpoints can be used; move that folder away "
                         r"to begin at step 0: .*step-00000040")
        self.assertIn("move that folder away to begin at step 0", run.summary["reason"])
        self.assertIn("fix the cause above, then lockstep run --resume", run.output)
        self.assertNotIn("lost", run.output)
        self.assertIn("newest of step 40", run.output)
        self.assertIn("this attempt did not change the earlier run", run.output)


class SharedCheckpoints(Resumed):
    def test_folder_that_a_living_run_writes_into_is_refused_with_its_process(self):
        shared = self.scratch / "shared"
        here = ["--set", f"training.checkpoint.directory={shared}"]
        first = self.start_until_trained(training_manifest(steps=1000000), *here)
        second = self.run_job(training_manifest(workers=1), *here)
        elsewhere = self.run_job(training_manifest(workers=1))
        self.assertEqual(second.exit_code, 1, second.output)
        self.assertIn(f"two runs must not share the checkpoint folder {shared}, which is in use by "
                      f"process {first[0].pid}\n", second.output)
        self.assertIsNone(second.summary)
        self.assert_trained(elsewhere)
        self.assertEqual(self.stop(first).exit_code, 130)
        step = self.checkpoints(self.scratch / "shared", "")[-1].name[len("step-"):]
        after = self.run_job(training_manifest(steps=int(step) + 1), *here)
        self.assert_trained(after)

    def taken_over(self, fence, job_uid):
        """The fence of a job on another machine that follows `job_uid`, from one of its own."""
        document = {key: value for key, value in json.loads(fence).items() if key != "sha256"}
        document["shutOut"] = [job_uid]
        text = json.dumps(document, separators=(",", ":"))
        return json.dumps({**document, "sha256": hashlib.sha256(text.encode()).hexdigest()})

    def test_job_that_another_one_shuts_out_fails_for_good(self):
        other = json.loads((self.trained() / "checkpoints" / "fence.json").read_text())
        started = self.start_until_trained(training_manifest(workers=2, steps=1000000))
        fence = started[1] / "checkpoints" / "fence.json"
        own_uid = json.loads(fence.read_text())["jobUid"]
        taken = self.taken_over(json.dumps(other), own_uid)
        new = self.scratch / "fence.json"
        new.write_text(taken)
        new.rename(fence)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn(f"{fence.parent} was taken over by job {other['jobUid']}",
                      run.summary["reason"])
        self.assertIn("(exit code 64)", run.summary["reason"])
        self.assertEqual(run.summary["restarts"], [], run.output)
        self.assertEqual(fence.read_text(), taken, "nobody takes it back")


class Warned(Resumed):
    def test_command_in_the_folder_of_a_training_does_not_deny_its_checkpoints(self):
        directory = self.trained()
        run = self.run_job(command_manifest(["true"], workers=1), "--quiet", name="first")
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertTrue(self.checkpoints(directory))
        self.assertNotIn("which has no checkpoint", run.output)

    def test_an_older_checkpoint_in_the_place_of_a_damaged_one_is_a_warning(self):
        directory = self.trained()
        self.damage(self.checkpoints(directory)[-1])
        run = self.resume(directory, "--quiet", "--set", "training.steps=60")
        self.assert_trained(run)
        self.assertIn("warning: training resumed from the checkpoint of step 20: the checkpoint of "
                      "step 40 cannot be used", run.output)

    def test_checkpoints_that_are_gone_are_a_warning(self):
        directory = self.trained()
        shutil.rmtree(directory / "checkpoints")
        run = self.resume(directory, "--quiet")
        self.assert_trained(run)
        self.assertRegex(run.output, "warning: an earlier run in this folder succeeded after "
                                     "40( of 40)? steps; it has no checkpoint")


# Runs a training on a disk of its own, which is full from the first checkpoint on.
FULL_DISK = """
mount -t tmpfs -o size=4m none {disk} || exit 9
{lockstep} run {manifest} --dir {disk}/run &
until ls {disk}/run/checkpoints | grep -q step-; do sleep 0.05; done
dd if=/dev/zero of={disk}/filler bs=4k status=none
sleep 2
kill -INT $!
wait $!
echo "exit code $?"
"""


class FullDisk(LocalTest):
    def test_a_stop_that_cannot_be_saved_is_a_failure_with_the_newest_checkpoint(self):
        own_mounts = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
        disk = self.scratch / "disk"
        disk.mkdir()
        if subprocess.run([*own_mounts, f"mount -t tmpfs none {disk}"],
                          capture_output=True).returncode != 0:
            self.skipTest("user namespaces with mounts of their own are not allowed here")
        manifest = self.scratch / "job.yaml"
        manifest.write_text(training_manifest(workers=2, steps=1000000))
        script = FULL_DISK.format(disk=disk, lockstep=BIN / "lockstep", manifest=manifest)
        ran = subprocess.run([*own_mounts, script], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, timeout=RUN_TIMEOUT_SECONDS)
        self.assertIn("exit code 1\n", ran.stdout)
        self.assertIn("the checkpoint could not be written", ran.stdout)
        self.assertRegex(ran.stdout,
                         r"No space left on device \([0-9]+ bytes to write, [0-9]+ free\)")
        self.assertIn("newest of step", ran.stdout)
        self.assertNotIn("is lost", ran.stdout)
        self.assertEqual(ran.stdout.count("warning: checkpoint not written"), 1, ran.stdout)


class SummaryFile(LocalTest):
    def run_with_summary(self, path):
        manifest = self.scratch / "job.yaml"
        manifest.write_text(command_manifest(["true"], workers=1))
        return subprocess.run(
            [BIN / "lockstep", "run", manifest, "--dir", self.scratch / "run", "--summary", path],
            capture_output=True, text=True, timeout=RUN_TIMEOUT_SECONDS)

    def test_a_pipe_is_written_to_and_stays_a_pipe(self):
        pipe = self.scratch / "pipe"
        os.mkfifo(pipe)
        end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            ran = self.run_with_summary(pipe)
            text = os.read(end, 65536)
        finally:
            os.close(end)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertTrue(pipe.is_fifo())
        self.assertEqual(json.loads(text)["outcome"], "succeeded")

    def test_a_pipe_that_nobody_reads_is_a_failure_and_no_wait(self):
        pipe = self.scratch / "pipe"
        os.mkfifo(pipe)
        ran = self.run_with_summary(pipe)
        self.assertEqual(ran.returncode, 1, ran.stderr)
        self.assertIn(f"writing the summary: open {pipe}", ran.stderr)

    def test_a_link_is_followed(self):
        link = self.scratch / "link"
        link.symlink_to("target.json")
        self.assertEqual(self.run_with_summary(link).returncode, 0)
        self.assertTrue(link.is_symlink())
        target = self.scratch / "target.json"
        self.assertEqual(json.loads(target.read_text())["outcome"], "succeeded")


if __name__ == "__main__":
    unittest.main(verbosity=2)
