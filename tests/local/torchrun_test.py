"""Commands that start their ranks by torchrun: directly, in a script, and in a file that the
manifest does not show. Pods of two ranks each, and no more of them than a test is about: each pod
and each rank loads torch."""

import signal
import unittest

from harness import LocalTest
from lanes import long
from runtime_pods import RuntimePodsTest
from torchrun_case import PROCESSES, TorchrunCase, in_shell

PODS = 2


class Torchrun(TorchrunCase, RuntimePodsTest):
    def start(self, command, launcher=None):
        variables = {"LOCKSTEP_LAUNCHER": launcher} if launcher else {}
        return self.start_pods(command, pods=PODS, processes=PROCESSES, variables=variables)

    def run_command(self, command, launcher=None):
        return self.finish_pods(self.start(command, launcher))

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

    @long
    def test_script_that_names_torchrun_is_started_once(self):
        self.assert_trained(self.run_command(in_shell(self.idle_words())))

    @long
    def test_stop_drains_the_ranks_of_a_script_in_the_image(self):
        started = self.start(self.script(self.idle_words("3:pause")), "Torchrun")
        self.wait_for(lambda: all("began as" in self.log(pod) for pod in range(PODS)))
        for pod in self.stop(started):
            self.assertEqual(pod.words["outcome"], "preempted", pod.output)

    def test_script_that_was_started_several_times_is_ended_with_the_cure(self):
        for pod in self.run_command(self.script(self.idle_words("nobody:waits"))):
            self.assertEqual(pod.exit_code, 64, pod.output)
            self.assertEqual(pod.words["outcome"], "permanent")
            self.assertIn("started the command 2 times; set launcher: Torchrun",
                          pod.words["reason"])

    @long
    def test_world_of_its_own_is_told_while_it_runs(self):
        words = self.idle_words("nobody:waits", options=["--nnodes=1", "--rdzv_backend=c10d",
                                                    "--rdzv_endpoint=localhost:0"])
        started = self.start(self.script(words), "Torchrun")
        self.wait_for(lambda: "trains 2 ranks by themselves, not the 4 ranks of the job"
                      in self.log(0))
        self.stop(started)


class Job(TorchrunCase, LocalTest):
    """The same under `lockstep run`: what becomes of the job."""

    def assert_ended_by(self, rank, run):
        """Its exit code 3, after one loss that another start made good."""
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertEqual(run.summary["restarts"], [{"cause": "killed", "count": 1}])
        self.assertIn(f"rank {rank}", run.summary["reason"])
        self.assertIn("exit code 3", run.summary["reason"])

    # Ranks that compute: the torchrun of a pod waits minutes for those of others that do not end.
    @long
    def test_killed_rank_is_tried_again_and_an_exit_code_is_not(self):
        self.assert_ended_by(2, self.run_job(self.manifest(self.words("3:kill,2:3"))))

    def test_terminated_rank_of_a_script_is_tried_again_and_an_exit_code_is_not(self):
        words = in_shell(self.idle_words("0:term,1:3"))
        self.assert_ended_by(1, self.run_job(self.manifest(words, workers=1)))

    @long
    def test_after_a_killed_rank_of_a_script_in_the_image_all_start_anew_and_succeed(self):
        run = self.run_job(self.manifest(self.script(self.words("3:kill")), "Torchrun"))
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(run.summary["restarts"], [{"cause": "killed", "count": 1}])
        self.assertEqual(run.output.count("summed over 4 ranks"), 4, run.output)

    def test_stop_drains_the_ranks(self):
        started = self.start(self.manifest(self.idle_words("3:pause")))
        process, directory, _ = started
        self.wait_for(lambda: all(
            self.pod_log(directory, f"ranks-worker-{pod}").count("began as") == PROCESSES
            for pod in range(2)))
        process.send_signal(signal.SIGTERM)
        run = self.finish(started)
        self.assertEqual((run.exit_code, run.summary["restarts"]), (130, []), run.output)

    @long
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
        script = self.script(self.idle_words(options=["--standalone"]))
        run = self.run_job(self.manifest(script, "Torchrun"))
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("but waits for them; remove --standalone", run.summary["reason"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
