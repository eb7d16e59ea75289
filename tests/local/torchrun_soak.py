"""Jobs of three pods, with two ranks each, whose torchrun is the command, stands in a script, or
stands in a file of the image: what becomes of each when a rank ends."""

import signal
import unittest

from harness import LocalTest
from torchrun_case import PROCESSES, TorchrunCase, in_shell

PODS = 3


class Torchrun(TorchrunCase, LocalTest):
    def start_job(self, command, launcher=None):
        return self.start(self.manifest(command, launcher, workers=PODS))

    def pods_say(self, directory, words, count):
        return all(self.pod_log(directory, f"ranks-worker-{pod}").count(words) >= count
                   for pod in range(PODS))

    # Ranks that compute: the torchrun of a pod waits minutes for those of others that do not end.
    def assert_ends_of_ranks_count(self, command, launcher=None):
        run = self.finish(self.start_job(command(self.words("5:kill,1:term,2:3")), launcher))
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertEqual(run.summary["restarts"], [{"cause": "killed", "count": 2}], run.output)
        self.assertIn("rank 2", run.summary["reason"])
        self.assertIn("exit code 3", run.summary["reason"])

    def assert_drained(self, command, launcher=None):
        started = self.start_job(command(self.idle_words("3:pause")), launcher)
        process, directory, _ = started
        self.wait_for(lambda: self.pods_say(directory, "began as", PROCESSES))
        process.send_signal(signal.SIGTERM)
        run = self.finish(started)
        self.assertEqual((run.exit_code, run.summary["restarts"]), (130, []), run.output)

    def test_torchrun_is_the_command(self):
        self.assert_ends_of_ranks_count(list)
        self.assert_drained(list)

    def test_torchrun_stands_in_a_script(self):
        self.assert_ends_of_ranks_count(in_shell)
        self.assert_drained(in_shell)

    def test_torchrun_stands_in_a_file_of_the_image(self):
        self.assert_ends_of_ranks_count(self.script, "Torchrun")
        self.assert_drained(self.script, "Torchrun")

    def test_standalone_is_told_while_it_trains_in_each_pod(self):
        for command in (list, in_shell):
            started = self.start_job(command(self.idle_words("nobody:waits", ["--standalone"])))
            process, directory, _ = started
            self.wait_for(lambda: self.pods_say(
                directory, "--standalone does not join the 6 ranks of the job", 1))
            self.wait_for(lambda: self.pods_say(directory, "began as 1 of 2, local 1", 1))
            process.send_signal(signal.SIGTERM)
            self.finish(started)

    def test_standalone_of_the_image_is_ended_with_the_cure(self):
        command = self.script(self.idle_words(options=["--standalone"]))
        run = self.finish(self.start_job(command, "Torchrun"))
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("but waits for them; remove --standalone", run.summary["reason"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
