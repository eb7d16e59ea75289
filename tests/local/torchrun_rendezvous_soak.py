"""Jobs of three pods, with two ranks each, whose torchruns meet by the rendezvous `lockstep`: what
becomes of the torchruns, for each thing that can be lost."""

import unittest

from torchrun_rendezvous_case import RendezvousCase

A_KILLED_POD = {"cause": "killed", "count": 1}


class Losses(RendezvousCase):
    def test_the_pod_whose_torchrun_has_the_store(self):
        self.check_trained(self.run_ranks("0:7:pod"), [2, 1, 1], restarts=[A_KILLED_POD])

    def test_two_pods_one_after_the_other(self):
        run = self.run_ranks("3:5:pod", "4:11:pod")
        self.check_trained(run, [1, 2, 2], restarts=[{"cause": "killed", "count": 2}])

    def test_a_torchrun_that_is_killed(self):
        self.check_trained(self.run_ranks("3:7:agent"), [1, 2, 1])

    def test_a_torchrun_that_is_frozen(self):
        self.check_trained(self.run_ranks("3:7:frozen"), [1, 2, 1])

    def test_a_worker_that_is_killed(self):
        self.check_trained(self.run_ranks("3:7:worker"), [1, 2, 1])

    def test_a_worker_that_is_killed_where_torchrun_may_restart(self):
        run = self.run_ranks("3:7:worker", options=["--rdzv_backend=lockstep", "--max_restarts=1"])
        self.check_trained(run, [1, 1, 1], counts=[(0,), (0, 1), (0,)])

    def test_a_worker_with_an_error_where_torchrun_may_restart(self):
        run = self.run_ranks("3:7:raise", options=["--rdzv_backend=lockstep", "--max_restarts=1"])
        self.check_trained(run, [1, 1, 1], counts=[(0,), (0, 1), (0,)])

    def test_a_pod_that_somebody_asks_to_end(self):
        self.check_trained(self.run_ranks("3:7:drain"), [1, 2, 1], restarts=[A_KILLED_POD])


class Ends(RendezvousCase):
    def test_a_worker_with_an_error_fails_the_job(self):
        run = self.run_ranks("3:7:raise")
        self.assertEqual((run.exit_code, run.summary["restarts"]), (1, []), run.output)
        self.assertIn("ValueError: a fault of the program", run.output)

    def test_a_workers_exit_code_is_its_verdict(self):
        run = self.run_ranks("3:7:5")
        self.assertEqual((run.exit_code, run.summary["restarts"]), (1, []), run.output)
        self.assertIn("rank 3", run.summary["reason"])
        self.assertIn("exit code 5", run.summary["reason"])

    def test_torchruns_that_wait_in_vain_name_the_rank_and_end_to_be_tried_again(self):
        started = self.start(self.ranks("3:7:absent", recovery="{rendezvousTimeoutSeconds: 10}"))
        _, directory, _ = started
        self.wait_for(lambda: "exit code 75" in self.pod_log(directory, "ranks-worker-0"))
        self.assertRegex(self.pod_log(directory, "ranks-worker-0"), "lockstep: .*rank 2 at ")
        self.stop(started)

    def test_a_range_of_pods_is_refused(self):
        run = self.run_ranks(options=["--rdzv_backend=lockstep", "--nnodes=2:3"])
        self.assertEqual(run.exit_code, 2, run.output)
        self.assertIn("--nnodes=2:3 found, expected no --nnodes", run.output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
