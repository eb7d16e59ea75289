"""Commands that start their ranks by torchrun: directly, in a script, and in a file that the
manifest does not show. Pods of two ranks each, and no more of them than a test is about: each pod
and each rank loads torch."""

import pathlib
import shlex
import signal
import subprocess
import unittest

from harness import LocalTest, command_manifest
from runtime_pods import RuntimePodsTest

PROGRAM = pathlib.Path(__file__).with_name("torchrun_program.py")
PYTHON = "/usr/bin/python3"  # the interpreter that Debian's python3-torch belongs to
PODS = 3  # where the ranks meet, or one is lost
PROCESSES = 2

# Debian's torch 1.13 does not start as torchrun under Python 3.11, whose flags leave out their
# zero.
# What it writes of its ranks it leaves behind.
TORCHRUN = f"""#!{PYTHON}
import os.path
import sys
import tempfile
tempfile.tempdir = os.path.dirname(__file__)
from torch.distributed.elastic.multiprocessing import api
of_text = api.Std.from_str
api.Std.from_str = classmethod(lambda cls, text: of_text(text) or cls.NONE)
from torch.distributed.run import main
sys.exit(main())
"""


def has_torch():
    probe = subprocess.run([PYTHON, "-c", "import torch.distributed.run"], capture_output=True)
    return probe.returncode == 0


class TorchrunCase(unittest.TestCase):
    """Words that start torchrun, beside a scratch folder."""

    def setUp(self):
        super().setUp()
        self.torchrun = self.scratch / "torchrun"
        self.torchrun.write_text(TORCHRUN)
        self.torchrun.chmod(0o755)

    def words(self, deed="none:none", options=()):
        """Ranks that compute."""
        return [str(self.torchrun), *options, str(PROGRAM), str(self.scratch), deed]

    def idle_words(self, deed="none:none", options=()):
        """Ranks that load no torch, and wait for what one of them does, if any does something."""
        return [*self.words(deed, options), "idle"]


@unittest.skipUnless(has_torch(), "Debian's python3-torch is not installed")
class Torchrun(TorchrunCase, RuntimePodsTest):
    def script(self, words):
        """A program of the image, of which the manifest says nothing but its name."""
        path = self.scratch / "train.sh"
        path.write_text(f"#!/bin/sh\nset -e\necho preparing\n{shlex.join(words)}\necho done\n")
        path.chmod(0o755)
        return [str(path)]

    def start(self, command, launcher=None, pods=PODS):
        variables = {"LOCKSTEP_LAUNCHER": launcher} if launcher else {}
        return self.start_pods(command, pods=pods, processes=PROCESSES, variables=variables)

    def run_command(self, command, launcher=None, pods=PODS):
        return self.finish_pods(self.start(command, launcher, pods))

    def stop(self, started):
        for process in started:
            process.send_signal(signal.SIGTERM)
        return self.finish_pods(started)

    def assert_trained(self, pods):
        """Each rank was started once, with its own numbers, and has summed over all."""
        for number, pod in enumerate(pods):
            self.assertEqual(pod.exit_code, 0, pod.output)
            ranks = PROCESSES * len(pods)
            self.assertEqual(pod.output.count(f"summed over {ranks} ranks"), PROCESSES, pod.output)
            for local in range(PROCESSES):
                began = f"began as {PROCESSES * number + local} of {ranks}, local {local},"
                self.assertEqual(pod.output.count(began), 1, pod.output)

    def test_ranks_of_all_pods_meet(self):
        self.assert_trained(self.run_command(self.words()))

    def test_script_that_names_torchrun_is_started_once(self):
        self.assert_trained(self.run_command(
            ["sh", "-c", "exec " + shlex.join(self.idle_words())], pods=2))

    def test_script_in_the_image_is_started_once_on_request(self):
        self.assert_trained(self.run_command(self.script(self.idle_words()), "Torchrun", pods=2))

    def test_exit_code_of_a_rank_in_a_script_is_the_pods(self):
        pod = self.run_command(self.script(self.words("3:3")), "Torchrun", pods=2)[1]
        self.assertEqual(pod.exit_code, 3, pod.output)
        self.assertEqual(pod.words["outcome"], "permanent")
        self.assertEqual(pod.words["reason"], "exit code 3")
        self.assertEqual(pod.words["culpritRank"], 3)

    def test_stop_drains_the_ranks(self):
        started = self.start(self.idle_words("3:pause"), pods=2)
        self.wait_for(lambda: all("began as" in self.log(pod) for pod in range(2)))
        for pod in self.stop(started):
            self.assertEqual(pod.words["outcome"], "preempted", pod.output)

    def test_script_that_was_started_several_times_is_ended_with_the_cure(self):
        for pod in self.run_command(self.script(self.idle_words("nobody:waits")), pods=2):
            self.assertEqual(pod.exit_code, 64, pod.output)
            self.assertEqual(pod.words["outcome"], "permanent")
            self.assertIn("started 2 times; set launcher: Torchrun", pod.words["reason"])

    def test_world_of_its_own_is_told_while_it_runs(self):
        words = self.idle_words("nobody:waits", options=["--nnodes=1", "--rdzv_backend=c10d",
                                                    "--rdzv_endpoint=localhost:0"])
        started = self.start(self.script(words), "Torchrun", pods=2)
        self.wait_for(lambda: "trains 2 ranks by themselves, not the 4 ranks of the job"
                      in self.log(0))
        self.stop(started)


@unittest.skipUnless(has_torch(), "Debian's python3-torch is not installed")
class Job(TorchrunCase, LocalTest):
    """The same under `lockstep run`: what becomes of the job."""

    def manifest(self, words, workers=2):
        return command_manifest(words, name="ranks", workers=workers, backoff_limit=2).replace(
            f"replicas: {workers}", f"replicas: {workers}\n    processes: {PROCESSES}")

    # Ranks that compute: the torchrun of a pod waits minutes for those of others that do not end.
    def run_ranks(self, deed):
        return self.run_job(self.manifest(self.words(deed)))

    def test_after_a_killed_rank_all_start_anew_and_succeed(self):
        run = self.run_ranks("3:kill")
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(run.summary["restarts"], [{"cause": "killed", "count": 1}])
        self.assertEqual(run.output.count("summed over 4 ranks"), 4, run.output)

    def test_after_a_terminated_rank_all_start_anew_and_succeed(self):
        run = self.run_ranks("3:term")
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(run.summary["restarts"], [{"cause": "killed", "count": 1}])

    def test_stop_drains_the_ranks(self):
        started = self.start(self.manifest(self.idle_words("3:pause")))
        process, directory, _ = started
        self.wait_for(lambda: all(
            self.pod_log(directory, f"ranks-worker-{pod}").count("began as") == PROCESSES
            for pod in range(2)))
        process.send_signal(signal.SIGTERM)
        run = self.finish(started)
        self.assertEqual((run.exit_code, run.summary["restarts"]), (130, []), run.output)

    def test_world_of_its_own_is_told_while_it_runs(self):
        started = self.start(self.manifest(self.idle_words("nobody:waits", ["--standalone"])))
        process, directory, _ = started
        self.wait_for(lambda: "--standalone does not join the 4 ranks of the job"
                      in self.pod_log(directory, "ranks-worker-0"))
        self.wait_for(lambda: "began as 1 of 2, local 1"
                      in self.pod_log(directory, "ranks-worker-0"))
        process.send_signal(signal.SIGTERM)
        self.finish(started)

    # The runtime does not see in a script that torchrun is to train alone, and tells it of others.
    def test_standalone_in_a_script_that_waits_for_others_is_ended_with_the_cure(self):
        script = self.scratch / "train.sh"
        script.write_text("#!/bin/sh\n" + shlex.join(self.idle_words(options=["--standalone"])))
        script.chmod(0o755)
        run = self.run_job(self.manifest([str(script)]).replace(
            f"processes: {PROCESSES}", f"processes: {PROCESSES}\n    launcher: Torchrun"))
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("and waits for them; remove --standalone", run.summary["reason"])

    def test_exit_code_of_a_rank_fails_the_job_by_its_name(self):
        run = self.run_ranks("3:3")
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertEqual(run.summary["restarts"], [])
        self.assertIn("rank 3", run.summary["reason"])
        self.assertIn("exit code 3", run.summary["reason"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
