"""The built-in trainer in several processes of a pod: one loses, the others live on."""

import contextlib
import os
import pathlib
import signal
import unittest

from harness import LocalTest, processes_below, training_manifest
from lanes import long

# Long enough for a fault in the middle, also where a test waits for a core meanwhile.
STEPS = 2100
EVERY_STEPS = 150


def manifest(**changes):
    """Two pods of two processes."""
    text = training_manifest(workers=2, steps=STEPS, every_steps=EVERY_STEPS, **changes)
    return text.replace("  - name: worker\n", "  - name: worker\n    processes: 2\n")


class Processes(LocalTest):
    undisturbed = None  # weights

    def ranks(self, directory):
        """Process ids of the trainers by rank."""
        found = {}
        for pid, command in processes_below(directory).items():
            if " --process " not in command:
                continue
            with contextlib.suppress(OSError):
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                pod = next(v for v in variables if v.startswith(b"LOCKSTEP_POD=")).decode()
                local = int(command.split(" --process ")[1].split()[0])
                found[2 * int(pod.split("-worker-")[1].split("-")[0]) + local] = pid
        return found

    def start_and_find(self, text):
        started = self.start(text)
        _, directory, _ = started
        # Checkpoints are written while all train.
        self.wait_for(lambda: list((directory / "checkpoints").glob("step-*")))
        ranks = self.ranks(directory)
        self.assertEqual(sorted(ranks), [0, 1, 2, 3])
        return started, ranks

    def assert_like_undisturbed(self, run):
        self.assert_trained(run)
        self.assertEqual(run.summary["steps"], STEPS)
        if Processes.undisturbed is None:
            Processes.undisturbed = self.final_weights(self.run_job(manifest()))
        self.assertEqual(self.final_weights(run), Processes.undisturbed)

    def lose_one_process(self, rank, number):
        started, before = self.start_and_find(manifest())
        _, directory, _ = started
        os.kill(before[rank], number)
        self.wait_for(lambda: self.ranks(directory).get(rank, before[rank]) != before[rank])
        after = self.ranks(directory)
        for other in {0, 1, 2, 3} - {rank}:
            self.assertEqual(after[other], before[other], f"rank {other}")
        run = self.finish(started)
        self.assert_like_undisturbed(run)
        self.assertEqual([pod["name"] for pod in run.summary["pods"]],
                         ["quick-worker-0", "quick-worker-1"])
        self.assertEqual(run.summary["restarts"], [])
        losses = [loss for loss in run.summary["recoveries"] if loss["lostRank"] == rank]
        self.assertEqual(len(losses), 1, run.output)
        self.assertEqual(losses[0]["culprit"], f"worker-{rank // 2}")
        self.assertGreater(run.summary["timeLostSeconds"], 0)
        self.assertIn(f"rank {rank} in worker-{rank // 2} (process lost): training again",
                      run.output)
        self.assertIn("process lost, a new process takes its place",
                      run.pod_log(f"quick-worker-{rank // 2}"))

    def test_killed_chief_has_a_successor_and_the_others_keep_their_processes(self):
        self.lose_one_process(0, signal.SIGKILL)

    @long
    def test_killed_process_has_a_successor_and_the_others_keep_their_processes(self):
        self.lose_one_process(3, signal.SIGKILL)

    @long
    def test_frozen_process_is_found_out_and_has_a_successor(self):
        self.lose_one_process(1, signal.SIGSTOP)

    def test_lost_pod_is_replaced_with_all_its_processes(self):
        run = self.run_job(manifest(), "--chaos", "kill=worker-1@step=150")
        self.assert_trained(run, recoveries=1)
        self.assert_like_undisturbed(run)
        self.assertIn("quick-worker-1-r1", [pod["name"] for pod in run.summary["pods"]])

    def test_job_that_wants_no_restart_fails_with_its_process(self):
        started, ranks = self.start_and_find(manifest(backoff_limit=0))
        os.kill(ranks[2], signal.SIGKILL)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("killed by SIGKILL", run.output)

    def test_stop_saves_what_all_have_trained(self):
        started, _ = self.start_and_find(manifest())
        run = self.stop(started)
        resumed = self.finish(self.start_resumed(run.directory))
        self.assert_like_undisturbed(resumed)


if __name__ == "__main__":
    unittest.main()
