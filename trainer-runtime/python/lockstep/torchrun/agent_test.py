"""What torchrun does about an end of its workers: a table of how they end and what is heard."""

import os
import subprocess
import types
import unittest
import unittest.mock

from lockstep.errors import InvalidArgument
from lockstep.torchrun import agent
from lockstep.torchrun.agent import Agent, create_handler

HEALTHY, SUCCEEDED, FAILED = (agent._server.WorkerState[name]
                              for name in ("HEALTHY", "SUCCEEDED", "FAILED"))


class FakeRendezvous:
    """A pod is lost, if `is_lost`, while somebody waits for that."""

    def __init__(self, is_lost):
        self.is_lost = is_lost
        self.waited = None
        self.has_left = False

    def await_loss(self, seconds):
        self.waited = seconds
        return self.is_lost

    def finish(self):
        return not self.is_lost

    def shutdown(self):
        self.has_left = True


def settle(state, is_lost, exitcode=1, restarts=0):
    """What the agent makes of it, and its rendezvous."""
    one = object.__new__(Agent)
    one._rendezvous_handler = FakeRendezvous(is_lost)
    one._remaining_restarts = restarts
    one._pcontext = types.SimpleNamespace(pids=lambda: {})
    one._worker_group = types.SimpleNamespace(spec=types.SimpleNamespace(monitor_interval=5.0))
    failures = {4: types.SimpleNamespace(exitcode=exitcode)} if state == FAILED else {}
    ended = agent._server.RunResult(state=state, failures=failures)
    with unittest.mock.patch.object(agent._local.LocalElasticAgent, "_monitor_workers",
                                    lambda *_: ended):
        return one._monitor_workers(None).state, one._rendezvous_handler


class Ends(unittest.TestCase):
    def test_a_failure_is_the_workers_own_unless_a_pod_is_lost(self):
        self.assertEqual(settle(FAILED, is_lost=False)[0], FAILED)
        self.assertEqual(settle(FAILED, is_lost=True)[0], HEALTHY)

    def test_success_counts_once_all_pods_have_it(self):
        self.assertEqual(settle(SUCCEEDED, is_lost=False)[0], SUCCEEDED)
        self.assertEqual(settle(SUCCEEDED, is_lost=True)[0], HEALTHY)

    def test_others_hear_at_once_of_a_torchrun_that_gives_up(self):
        self.assertTrue(settle(FAILED, is_lost=False)[1].has_left)
        self.assertFalse(settle(FAILED, is_lost=False, restarts=1)[1].has_left)
        self.assertFalse(settle(FAILED, is_lost=True)[1].has_left)

    def test_a_loss_is_awaited_but_not_after_ends_that_it_does_not_explain(self):
        with unittest.mock.patch.dict(os.environ, LOCKSTEP_SILENT_AFTER_MS="4000"):
            self.assertEqual(settle(FAILED, is_lost=False)[1].waited, 4.0 + 5.0 + 1.5)
            self.assertEqual(settle(FAILED, is_lost=False, exitcode=-6)[1].waited, 4.0 + 5.0 + 1.5)
        for exitcode in (-9, -11, 5):
            self.assertEqual(settle(FAILED, is_lost=False, exitcode=exitcode)[1].waited, 0.0)


    def test_others_hear_of_a_killed_worker_before_the_rest_of_the_pod_is_stopped(self):
        for words, is_own in (("kill -9 $$", True), ("kill -6 $$", False), ("exit 5", True),
                              ("exit 1", False), ("exit 0", False), ("sleep 60", False)):
            with subprocess.Popen(["sh", "-c", words]) as worker:
                if "sleep" not in words:
                    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
                one = object.__new__(Agent)
                one._pcontext = types.SimpleNamespace(pids=lambda: {0: worker.pid})
                self.assertEqual(one._has_own_end(), is_own, words)
                worker.kill()
            self.assertFalse(one._has_own_end())


    def test_a_torchrun_that_was_asked_to_end_says_so(self):
        def run(_, role):
            raise agent._workers.SignalException(role, 15)

        with unittest.mock.patch.object(agent._local.LocalElasticAgent, "run", run):
            with self.assertRaises(SystemExit) as end:
                object.__new__(Agent).run("role")
        self.assertEqual(end.exception.code, 143)


class Sizes(unittest.TestCase):
    variables = {"LOCKSTEP_WORLD_SIZE": "6", "LOCKSTEP_PROCESSES": "2"}

    def setUp(self):
        launcher = unittest.mock.patch.object(agent._launcher, "LocalElasticAgent")
        launcher.start()
        self.addCleanup(launcher.stop)

    def parameters(self, least, most):
        return types.SimpleNamespace(min_nodes=least, max_nodes=most, run_id="run")

    def test_all_pods_of_the_job_and_no_range(self):
        with unittest.mock.patch.dict(os.environ, self.variables):
            self.assertEqual(create_handler(self.parameters(3, 3)).get_run_id(), "run")
            self.assertIs(agent._launcher.LocalElasticAgent, Agent)
            for least, most in ((2, 4), (1, 1), (6, 6)):
                with self.assertRaisesRegex(InvalidArgument,
                                            f"--nnodes={least}:{most} found, expected 3: .*remove"):
                    create_handler(self.parameters(least, most))

    def test_ranks_are_in_the_order_of_pods(self):
        spec = types.SimpleNamespace(local_world_size=2)
        workers = object.__new__(Agent)._assign_worker_ranks(None, 2, 3, spec)
        self.assertEqual([(one.local_rank, one.global_rank, one.role_rank, one.world_size)
                          for one in workers], [(0, 4, 4, 6), (1, 5, 5, 6)])

    def test_a_torch_whose_agent_is_another_is_refused_by_name(self):
        with unittest.mock.patch.dict(os.environ, self.variables), \
                unittest.mock.patch.object(agent._local, "LocalElasticAgent", object):
            with self.assertRaisesRegex(InvalidArgument, "torch .*: _monitor_workers, _assign"):
                create_handler(self.parameters(3, 3))


if __name__ == "__main__":
    unittest.main()
