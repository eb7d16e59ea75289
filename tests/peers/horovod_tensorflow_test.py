"""lockstep.horovod.tensorflow and its Keras in real TensorFlow: programs for Horovod but for one
import have the losses of one process on TensorFlow alone, mistakes are told, and
examples/horovod_tensorflow_elastic.py goes on after losses."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "local"))

from harness import BIN, REPOSITORY, LocalTest, command_manifest  # noqa: E402
from horovod_case import PROGRAM_STEPS, ElasticCase, HorovodCase  # noqa: E402
from own_program_case import OwnProgramCase  # noqa: E402

PYTHON = os.environ.get("LOCKSTEP_TENSORFLOW_PYTHON", "")
RANK = HERE / "horovod_tensorflow_rank.py"
EXAMPLE = REPOSITORY / "examples" / "horovod_tensorflow_elastic.py"
EPOCHS = 4
# Which Keras tf.keras is.
KERASES = {"keras": "0", "tf-keras": "1"}

# What Horovod is to one process: nothing. Runs the program that follows.
ALONE = """\
import runpy, sys, types
import tensorflow as tf

def same(what, **_):
    return what

class Nothing(tf.keras.callbacks.Callback):
    def __init__(self, *_):
        super().__init__()

def schedule(initial_lr, multiplier, momentum_correction):
    assert not momentum_correction
    return tf.keras.callbacks.LearningRateScheduler(lambda epoch: initial_lr * multiplier ** epoch)

horovod, hvd, keras = (types.ModuleType(name) for name in (
    "horovod", "horovod.tensorflow", "horovod.tensorflow.keras"))
sys.modules.update({one.__name__: one for one in (horovod, hvd, keras)})
horovod.tensorflow, hvd.keras = hvd, keras
for one in (hvd, keras):
    one.init = one.shutdown = lambda: None
    one.rank = one.local_rank = one.cross_rank = lambda: 0
    one.size = one.local_size = one.cross_size = lambda: 1
    one.allreduce = one.DistributedGradientTape = one.DistributedOptimizer = same
hvd.broadcast_variables = lambda *_, **__: None
keras.callbacks = types.SimpleNamespace(
    BroadcastGlobalVariablesCallback=Nothing, MetricAverageCallback=Nothing,
    LearningRateScheduleCallback=schedule)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def words(keras="keras"):
    """Those that run TensorFlow's Python with the package."""
    variables = {
        "PYTHONPATH": REPOSITORY / "trainer-runtime" / "python",
        "LOCKSTEP_LIBRARY": BIN / "liblockstep.so.1", "OMP_NUM_THREADS": 1,
        "TF_USE_LEGACY_KERAS": KERASES[keras], "TF_CPP_MIN_LOG_LEVEL": 2}
    return ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items()),
            PYTHON, "-B"]


@unittest.skipUnless(PYTHON, "TensorFlow is not installed; tests/peers/tensorflow.sh installs it")
class Programs(HorovodCase):
    """Those beside this test, which know nothing of Lockstep."""

    def changed(self, name):
        """The program with its one import changed."""
        text, count = re.subn(r"^import horovod\.", "import lockstep.horovod.",
                              (HERE / name).read_text(), flags=re.MULTILINE)
        self.assertEqual(count, 1)
        program = self.scratch / name
        program.write_text(text)
        return str(program)

    def alone(self, keras, name, *arguments):
        ran = subprocess.run([*words(keras), "-c", ALONE, HERE / name, *arguments],
                             capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def test_a_tape_within_a_function(self):
        program = self.changed("horovod_tensorflow.py")
        for keras in KERASES:
            alone = self.alone(keras, "horovod_tensorflow.py", str(PROGRAM_STEPS))
            for workers, processes in ((2, 1), (3, 1), (2, 2)):
                with self.subTest(keras=keras, workers=workers, processes=processes):
                    log = self.together([*words(keras), program, str(PROGRAM_STEPS)], workers,
                                        processes)
                    self.check_same(log, alone, PROGRAM_STEPS)
                    print(f"{keras}, {workers} x {processes} ranks: "
                          f"{re.search('each step took .*', log)[0]}; one process alone: "
                          f"{re.search('each step took .*', alone)[0]}", flush=True)

    def test_fit_with_callbacks_and_backward_passes(self):
        program = self.changed("horovod_keras.py")
        for keras in KERASES:
            for passes in (1, 2):
                # Of one process that takes as many samples for each of its steps.
                alone = self.alone(keras, "horovod_keras.py", str(EPOCHS), "1", str(12 * passes))
                for workers in (2, 3):
                    with self.subTest(keras=keras, passes=passes, workers=workers):
                        log = self.together(
                            [*words(keras), program, str(EPOCHS), str(passes), "12"], workers)
                        self.check_same(log, alone, EPOCHS)


@unittest.skipUnless(PYTHON, "TensorFlow is not installed; tests/peers/tensorflow.sh installs it")
class Calls(LocalTest):
    """Each part of horovod_tensorflow_rank.py checks itself."""

    def run_part(self, part, workers=2, succeeds=True):
        run = self.run_job(command_manifest([*words(), str(RANK), part], workers=workers))
        self.assertEqual(run.exit_code == 0, succeeds, run.output)
        return [run.pod_log(f"command-worker-{rank}") for rank in range(workers)], run.output

    def test_every_collective(self):
        self.run_part("collectives", workers=3)

    def test_gradients_go_back(self):
        self.run_part("gradients")

    def test_sparse_gradients(self):
        self.run_part("sparse", workers=3)

    def test_calls_of_a_function_keep_their_order(self):
        self.run_part("order", workers=3)

    def test_ranks_that_call_different_things(self):
        self.run_part("mismatch")

    def test_ranks_that_have_fewer_batches_join(self):
        self.run_part("join", workers=3)

    def test_what_is_not_offered_is_refused(self):
        self.run_part("refusals", workers=1)

    def test_strings_are_refused(self):
        self.run_part("strings", workers=1)

    def test_a_rank_that_shuts_down_while_others_are_in_a_function_fails_the_job(self):
        logs, output = self.run_part("leaves", succeeds=False)
        call = 'shut down while rank 1 calls allreduce "loss"'
        self.assertIn(f"rank 0 is lost: {call}", logs[1])
        self.assertRegex(output, r"\b75\b")
        self.assertRegex(output, f"command failed after .*rank 0 has {call}")


@unittest.skipUnless(PYTHON, "TensorFlow is not installed; tests/peers/tensorflow.sh installs it")
class Recovery(ElasticCase):
    """examples/horovod_tensorflow_elastic.py, disturbed."""

    program = [*words(), str(EXAMPLE)]

    def test_killed_ranks_are_replaced_and_the_weights_are_those_of_an_undisturbed_run(self):
        self.check_killed_ranks([0], [1, 2])

    def test_losses_are_those_of_one_process(self):
        self.check_losses_of_one_and_two()


@unittest.skipUnless(PYTHON, "TensorFlow is not installed; tests/peers/tensorflow.sh installs it")
class KerasFit(OwnProgramCase):
    """`fit` of Keras 3 under `elastic.run`, disturbed in the midst of an epoch."""

    program = [*words(), str(HERE / "horovod_keras_elastic.py")]

    def start_and_meet(self, manifest=None, workers=3):
        started = super().start_and_meet(manifest, workers)
        self.wait_for(lambda: self.metric(started, "lockstep_training_step") >= 25)
        return started

    def test_killed_once_it_begins_the_epoch_anew_and_ends_with_the_same_weights(self):
        expected = self.undisturbed()
        self.assertEqual(len({model for models in expected for model in models}), 1)
        run = self.lose([1])
        self.assertEqual(self.models(run), expected)
        begun = self.steps_met(run.directory, 0)
        self.assertEqual((len(begun), begun[0], begun[1] % 10), (2, 0, 0))
        self.assertGreaterEqual(begun[1], 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
