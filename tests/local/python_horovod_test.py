"""lockstep.horovod.torch: a program for Horovod but for one import has the losses of one process on
torch alone, mistakes are told, and examples/horovod_elastic.py goes on after losses."""

import functools
import pathlib
import subprocess
import unittest

from harness import REPOSITORY, LocalTest, command_manifest
from horovod_case import PROGRAM_STEPS, ElasticCase, HorovodCase
from lanes import long
from python_case import PYTHON, can_import, python_words

RANK = pathlib.Path(__file__).with_name("python_horovod_rank.py")
PROGRAM = REPOSITORY / "examples" / "horovod_torch.py"
EXAMPLE = REPOSITORY / "examples" / "horovod_elastic.py"

# What Horovod is to one process: nothing. Runs the program that follows.
ALONE = """\
import runpy, sys, types
horovod, hvd = types.ModuleType("horovod"), types.ModuleType("horovod.torch")
sys.modules.update({"horovod": horovod, "horovod.torch": hvd})
horovod.torch = hvd
hvd.init = hvd.shutdown = hvd.broadcast_parameters = hvd.broadcast_optimizer_state = (
    lambda *_, **__: None)
hvd.rank = hvd.local_rank = hvd.cross_rank = lambda: 0
hvd.size = hvd.local_size = hvd.cross_size = lambda: 1
hvd.broadcast_object = hvd.DistributedOptimizer = hvd.allreduce = lambda what, **_: what
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@unittest.skipUnless(can_import("torch"), "python3-torch is not installed")
class Program(HorovodCase):
    """examples/horovod_torch.py, which knows nothing of Lockstep."""

    def setUp(self):
        super().setUp()
        theirs = "import horovod.torch as hvd\n"
        text = PROGRAM.read_text()
        self.assertEqual(text.count(theirs), 1)
        self.program = self.scratch / PROGRAM.name
        self.program.write_text(text.replace(theirs, "import lockstep.horovod.torch as hvd\n"))

    @staticmethod
    @functools.cache
    def alone():
        ran = subprocess.run([PYTHON, "-B", "-c", ALONE, PROGRAM, str(PROGRAM_STEPS)],
                             capture_output=True, text=True, check=True)
        return ran.stdout

    def check(self, workers, processes=1):
        words = python_words(self.program, str(PROGRAM_STEPS), "$(LOCKSTEP_CHECKPOINT_DIR)")
        self.check_same(self.together(words, workers, processes), self.alone(), PROGRAM_STEPS)

    def test_three_ranks(self):
        self.check(workers=3)

    @long
    def test_two_pods_of_two_ranks(self):
        self.check(workers=2, processes=2)


@unittest.skipUnless(can_import("torch"), "python3-torch is not installed")
class Calls(LocalTest):
    """Each part of python_horovod_rank.py checks itself."""

    def run_parts(self, *parts, workers=2, stall_seconds=60, ends=0):
        run = self.run_job(command_manifest(
            ["/usr/bin/env", f"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS={stall_seconds}",
             *python_words(RANK, *parts)], workers=workers))
        self.assertEqual(run.exit_code, ends, run.output)
        return [run.pod_log(f"command-worker-{rank}") for rank in range(workers)]

    def test_every_collective_and_ranks_that_have_fewer_batches_join(self):
        self.run_parts("collectives", "join", workers=3)

    @long
    def test_ranks_that_call_different_things(self):
        for part in ("mismatch", "begun_mismatch"):
            for log in self.run_parts(part, ends=1):
                self.assertIn("] OK\n", log)  # of the assertions
                self.assertRegex(log, "lockstep: the program caught Mismatch and ended with exit "
                                 'code 0, so this process ends with 1 instead: .*calls .* "loss"')

    def test_ranks_that_differ_are_no_success_though_the_program_hides_its_code(self):
        run = self.run_job(command_manifest(python_words(RANK, "hide_mismatch"), workers=2))
        self.assertEqual((run.exit_code, run.summary["restarts"]), (1, []), run.output)
        self.assertIn("but the ranks had made different calls, so this pod ends with 1: rank 0 "
                      'calls broadcast "of rank 0"', run.output)

    def test_a_rank_that_never_calls_is_named(self):
        logs = self.run_parts("silent", stall_seconds=3)
        self.assertRegex(logs[0], r'lockstep: allreduce "loss" of float32 \[3\], Average: .*rank 1')

    def test_a_rank_that_shuts_down_early_is_named(self):
        logs = self.run_parts("leaves", ends=1)
        self.assertIn("rank 0 is lost: shut down while rank 1 calls allreduce", logs[1])

    @long
    def test_a_rank_that_ends_early_fails_the_job_and_no_other_try_is_made(self):
        run = self.run_job(command_manifest(
            python_words(RANK, "exit_early"), workers=2, backoff_limit=6))
        self.assertEqual((run.exit_code, run.summary["restarts"]), (1, []), run.output)
        self.assertRegex(
            run.output, r"command failed after .*: pod command-worker-0 \(rank 0\) ended with "
            'exit code 1: .*rank 0 has shut down while rank 1 calls allreduce "gradient"')
        self.assertIn("rank 0 is lost: shut down", run.pod_log("command-worker-1"))

    @long
    def test_a_rank_that_crashes_in_its_teardown_has_succeeded(self):
        run = self.run_job(command_manifest(
            python_words(RANK, "die_in_teardown"), workers=2, backoff_limit=3))
        self.assertEqual((run.exit_code, run.summary["restarts"]), (0, []), run.output)
        self.assertEqual(run.output.count("has begun"), 2, run.output)
        self.assertRegex(run.pod_log("command-worker-0"), "ended by a signal .*SIGSEGV")


@unittest.skipUnless(can_import("torch"), "python3-torch is not installed")
class Recovery(ElasticCase):
    """examples/horovod_elastic.py, disturbed."""

    program = python_words(EXAMPLE)

    @long
    def test_killed_ranks_are_replaced_and_the_weights_are_those_of_an_undisturbed_run(self):
        self.check_killed_ranks([0], [1, 2])

    def test_losses_are_those_of_one_process(self):
        self.check_losses_of_one_and_two()


if __name__ == "__main__":
    unittest.main(verbosity=2)
