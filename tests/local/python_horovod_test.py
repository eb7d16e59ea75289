"""lockstep.horovod.torch: a program for Horovod but for one import has the losses of one process on
torch alone, mistakes are told, and examples/horovod_elastic.py goes on after losses."""

import pathlib
import re
import subprocess
import unittest

from harness import REPOSITORY, LocalTest, command_manifest
from own_program_case import STEPS, OwnProgramCase
from python_case import PYTHON, can_import, python_words

RANK = pathlib.Path(__file__).with_name("python_horovod_rank.py")
PROGRAM = REPOSITORY / "tests" / "peers" / "horovod_torch.py"
EXAMPLE = REPOSITORY / "examples" / "horovod_elastic.py"
PROGRAM_STEPS = 40

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


def losses(text):
    return [float(loss) for _, loss in re.findall(r"step (\d+) loss ([0-9.]+)", text)]


@unittest.skipUnless(can_import("torch"), "python3-torch is not installed")
class Program(LocalTest):
    """tests/peers/horovod_torch.py, which knows nothing of Lockstep."""

    def setUp(self):
        super().setUp()
        theirs = "import horovod.torch as hvd\n"
        text = PROGRAM.read_text()
        self.assertEqual(text.count(theirs), 1)
        self.program = self.scratch / PROGRAM.name
        self.program.write_text(text.replace(theirs, "import lockstep.horovod.torch as hvd\n"))

    def alone(self):
        ran = subprocess.run([PYTHON, "-B", "-c", ALONE, PROGRAM, str(PROGRAM_STEPS)],
                             capture_output=True, text=True, check=True)
        return losses(ran.stdout)

    def check(self, workers, processes=1):
        expected = self.alone()
        self.assertEqual(len(expected), PROGRAM_STEPS)
        words = python_words(self.program, str(PROGRAM_STEPS), "$(LOCKSTEP_CHECKPOINT_DIR)")
        run = self.run_job(command_manifest(words, name="hvd", workers=workers).replace(
            f"replicas: {workers}", f"replicas: {workers}\n    processes: {processes}"))
        self.assertEqual(run.exit_code, 0, run.output)
        found = losses(run.pod_log("hvd-worker-0"))
        self.assertEqual(len(found), PROGRAM_STEPS)
        for own, other in zip(found, expected):
            self.assertAlmostEqual(own, other, delta=1e-5)
        for rank in range(workers * processes):
            pod, local_rank = divmod(rank, processes)
            self.assertIn(f"rank {rank} of {workers * processes}, local {local_rank} of "
                          f"{processes}, cross {pod} of {workers}, ",
                          run.pod_log(f"hvd-worker-{pod}"))

    def test_two_ranks(self):
        self.check(workers=2)

    def test_three_ranks(self):
        self.check(workers=3)

    def test_two_pods_of_two_ranks(self):
        self.check(workers=2, processes=2)


@unittest.skipUnless(can_import("torch"), "python3-torch is not installed")
class Calls(LocalTest):
    """Each part of python_horovod_rank.py checks itself."""

    def run_part(self, part, workers=2, exit_code=0):
        run = self.run_job(command_manifest(
            ["/usr/bin/env", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=3",
             *python_words(RANK, part)], workers=workers))
        self.assertEqual(run.exit_code, exit_code, run.output)
        return [run.pod_log(f"command-worker-{rank}") for rank in range(workers)]

    def test_every_collective(self):
        self.run_part("collectives", workers=3)

    def test_ranks_that_call_different_things(self):
        self.run_part("mismatch")
        self.run_part("begun_mismatch")

    def test_ranks_that_have_fewer_batches_join(self):
        self.run_part("join", workers=3)

    def test_a_rank_that_never_calls_is_named(self):
        logs = self.run_part("silent")
        self.assertRegex(logs[0], r'lockstep: allreduce "loss" of float32 \[3\], Average: .*rank 1')

    def test_a_rank_that_ends_early_is_named(self):
        logs = self.run_part("leaves")
        self.assertRegex(logs[1], "rank 0 has shut down, where rank 1 calls allreduce")


@unittest.skipUnless(can_import("torch"), "python3-torch is not installed")
class Recovery(OwnProgramCase):
    """examples/horovod_elastic.py, disturbed."""

    program = python_words(EXAMPLE)

    def test_killed_ranks_are_replaced_and_the_weights_are_those_of_an_undisturbed_run(self):
        expected = self.undisturbed()
        self.assertEqual(len({model for models in expected for model in models}), 1)
        for ranks in ([0], [1, 2]):
            self.assertEqual(self.models(self.lose(ranks)), expected)

    def test_losses_are_those_of_one_process(self):
        found = []
        for workers in (1, 2):
            run = self.run_job(self.manifest(workers=workers))
            self.assertEqual(run.exit_code, 0, run.output)
            found.append(losses(run.pod_log("own-worker-0")))
            self.assertEqual(len(found[-1]), STEPS)
        for own, other in zip(*found):
            self.assertAlmostEqual(own, other, delta=1e-5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
