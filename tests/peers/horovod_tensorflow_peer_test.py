"""TensorFlow programs for Horovod 0.28.1, those beside this test and Horovod's own examples, have
the losses that they have under horovodrun: beside Horovod itself as a job, and, with their imports
changed, without it. tests/bench/horovod measures what a step takes."""

import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

from horovod_ways import HERE, by_horovodrun, changed, first_rank, job, losses, without_horovod
from harness import BIN, LocalTest

PYTHON = os.environ.get("LOCKSTEP_HOROVOD_TENSORFLOW_PYTHON", "")
# Of Horovod's source; its packages have none.
EXAMPLES = os.environ.get("LOCKSTEP_HOROVOD_EXAMPLES", "")
SHARED = ["/usr/bin/env", "OMP_NUM_THREADS=1", "TF_CPP_MIN_LOG_LEVEL=2"]
EXAMPLES_THERE = unittest.skipUnless(
    PYTHON and EXAMPLES, "Horovod for TensorFlow and the folder `examples` of its source, 0.28.1, "
    "which LOCKSTEP_HOROVOD_EXAMPLES names, are not both there")
# Of sums in another order.
LOSS_DELTA = 1e-5
STEPS = 40
EPOCHS = 4
PATIENCE_SECONDS = 240


class Ways(LocalTest):
    def run_by_horovodrun(self, ranks, *words):
        command, environment = by_horovodrun(PYTHON, ranks, [*SHARED, PYTHON, "-B", *words])
        ran = subprocess.run(command, capture_output=True, text=True, check=False,
                             timeout=PATIENCE_SECONDS, env=environment)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return first_rank(ran.stdout)

    def run_as_job(self, manifest):
        run = self.run_job(manifest)
        self.assertEqual(run.exit_code, 0, run.output)
        return run.pod_log("hvd-worker-0")

    def check_same(self, ranks, count, program, *words, runner=()):
        """All three ways have so many losses, the same ones."""
        own = str(changed(program, self.scratch))
        expected = losses(self.run_by_horovodrun(ranks, *runner, str(program), *words))
        self.assertEqual(len(expected), count)
        command = [*SHARED, PYTHON, "-B", *runner]
        for text in (
            self.run_as_job(job([*command, str(program), *words], ranks)),
            self.run_as_job(job([*without_horovod(BIN / "liblockstep.so.1"), *command, own, *words],
                                ranks, strategy="None")),
        ):
            found = losses(text)
            self.assertEqual(len(found), count, text)
            for one, another in zip(found, expected):
                self.assertAlmostEqual(one, another, delta=LOSS_DELTA)


@unittest.skipUnless(
    PYTHON, "Horovod for TensorFlow is not there; tests/peers/horovod_tensorflow.sh installs it")
class Programs(Ways):
    def test_a_tape_within_a_function(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                self.check_same(ranks, STEPS, HERE / "horovod_tensorflow.py", str(STEPS))

    def test_fit_with_callbacks_and_backward_passes(self):
        for ranks, passes in ((2, 1), (3, 1), (2, 2)):
            with self.subTest(ranks=ranks, passes=passes):
                self.check_same(
                    ranks, EPOCHS, HERE / "horovod_keras.py", str(EPOCHS), str(passes), "12")


@EXAMPLES_THERE
class Examples(Ways):
    """Horovod's own, as they are."""

    def check_example(self, name, steps, epochs, count):
        runner = (str(HERE / "horovod_example.py"),)
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                self.check_same(ranks, count, pathlib.Path(EXAMPLES) / "tensorflow2" / name,
                                str(steps), str(epochs), runner=runner)

    def test_keras(self):
        self.check_example("tensorflow2_keras_mnist.py", steps=5, epochs=2, count=10)

    def test_a_tape(self):
        self.check_example("tensorflow2_mnist.py", steps=11, epochs=1, count=2)


@EXAMPLES_THERE
class ElasticExample(Ways):
    """Horovod's own Keras example for `hvd.elastic`, of which one rank is killed."""

    program = pathlib.Path(
        EXAMPLES, "elastic", "tensorflow2", "tensorflow2_keras_mnist_elastic.py")
    arguments = ["5", "2"]  # steps of an epoch, and epochs

    def command(self, program):
        return [*SHARED, PYTHON, "-B", str(HERE / "horovod_example.py"), str(program),
                *self.arguments]

    def lose_one(self, manifest):
        """Kills the process of rank 1 in its third step; the run, and the moment."""
        started = self.start(manifest)
        log = started[1] / "pods" / "hvd-worker-1" / "pod.log"
        self.wait_for(lambda: log.exists() and "step 3 loss" in log.read_text(),
                      seconds=PATIENCE_SECONDS)
        os.kill(int(re.search(r"process (\d+) begins", log.read_text())[1]), signal.SIGKILL)
        killed = time.monotonic()
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)
        return run, killed

    def check_goes_on(self, log, killed):
        """`log` ends with what the lost rank's successor says: others may end a step that is out
        of its hands already."""
        newcomer = log.rpartition(" begins")[2]
        after = [float(at) - killed for at in re.findall(r"loss .* at ([0-9.]+)", newcomer)]
        self.assertGreaterEqual(len(after), 5)
        self.assertGreater(after[0], 0)
        print(f"{self.id()}: next step {after[0]:.2f} s after the kill", flush=True)

    def test_with_its_import_changed_the_others_keep_their_process(self):
        own = changed(self.program, self.scratch)
        run, killed = self.lose_one(job(
            [*without_horovod(BIN / "liblockstep.so.1"), *self.command(own)], 2, strategy="None",
            backoff_limit=3))
        logs = [run.pod_log(f"hvd-worker-{rank}") for rank in range(2)]
        self.assertEqual([len(re.findall(r"process \d+ begins", log)) for log in logs], [1, 2])
        self.check_goes_on(logs[1], killed)

    def test_beside_horovod_itself_the_gang_starts_anew(self):
        run, killed = self.lose_one(job(
            self.command(self.program), 2, backoff_limit=3, restart_policy="OnFailure"))
        self.check_goes_on(run.pod_log("hvd-worker-1-a1"), killed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
