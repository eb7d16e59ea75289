"""lockstep.keras.Report in real TensorFlow: what Keras has done is what the job's status shows."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "local"))

from harness import BIN, REPOSITORY, RUN_TIMEOUT_SECONDS, LocalTest, command_manifest  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("tensorflow_report.py")
PYTHON = os.environ.get("LOCKSTEP_TENSORFLOW_PYTHON", "")
VARIABLES = {"PYTHONPATH": str(REPOSITORY / "trainer-runtime" / "python"),
             "LOCKSTEP_LIBRARY": str(BIN / "liblockstep.so.1")}
# autograph would leave compiled files in the scratch folder
WORDS = ["/usr/bin/env", *(f"{name}={value}" for name, value in VARIABLES.items()),
         PYTHON, "-B", str(PROGRAM)]
COMMAND = [*WORDS, "3"]
BATCHES = 8  # of an epoch: 256 samples in batches of 32
STEPS = 3 * BATCHES
LONG_EPOCHS = 12


@unittest.skipUnless(PYTHON, "TensorFlow is not installed; tests/peers/tensorflow.sh installs it")
class KerasReport(LocalTest):
    def check(self, workers, keras):
        command = [*COMMAND[:1], f"TF_USE_LEGACY_KERAS={keras}", *COMMAND[1:]]
        run = self.run_job(command_manifest(command, name="keras", workers=workers))
        self.assertEqual(run.exit_code, 0, run.output)
        last = float(re.search(r"last loss ([0-9.]+)", run.pod_log("keras-worker-0"))[1])
        self.assertEqual(run.summary["steps"], STEPS)
        self.assertAlmostEqual(run.summary["loss"], last, places=5)
        self.assertLessEqual(run.summary.get("accuracy", 0), 1)
        self.assertNotIn("Report is off", run.pod_log("keras-worker-0"))

    def test_multi_worker_mirrored_beside_its_own_server(self):
        self.check(workers=2, keras=1)

    def test_one_process_with_tf_keras(self):
        self.check(workers=1, keras=1)

    def test_one_process_with_keras_3(self):
        self.check(workers=1, keras=0)

    def steps(self, directory, worker):
        """Of each start of the worker's program, the steps that it took."""
        log = directory / "pods" / f"keras-worker-{worker}" / "pod.log"
        text = log.read_text(errors="replace") if log.exists() else ""
        return [[int(step) for step in re.findall(r"step (\d+)$", start, re.MULTILINE)]
                for start in re.split(r"process \d+ begins", text)[1:]]

    def test_killed_once_reports_go_on_where_the_backup_was(self):
        shell = "exec " + " ".join([*WORDS, str(LONG_EPOCHS), "$LOCKSTEP_CHECKPOINT_DIR/backup"])
        started = self.start(command_manifest(["sh", "-c", shell], name="keras", backoff_limit=1,
                                              recovery="{relaunch: true}"))
        _, directory, _ = started
        self.wait_for(lambda: any(2 * BATCHES < step for start in self.steps(directory, 0)
                                  for step in start))
        log = directory / "pods" / "keras-worker-1" / "pod.log"
        os.kill(int(re.search(r"process (\d+) begins", log.read_text())[1]), signal.SIGKILL)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(run.summary["restarts"], [{"cause": "killed", "count": 1}])
        self.assertEqual(len(run.summary["pods"]), 2, run.output)
        before, after = self.steps(directory, 0)
        self.assertGreater(after[0], BATCHES, "did not go on from the backup")
        self.assertLessEqual(after[0], before[-1] + 1)
        total = LONG_EPOCHS * BATCHES
        self.assertEqual([run.summary[key] for key in ("steps", "stepsTotal")], [total, total])

    def test_by_hand_it_says_that_nothing_is_reported(self):
        ran = subprocess.run(COMMAND, capture_output=True, text=True, check=False,
                             timeout=RUN_TIMEOUT_SECONDS)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stderr.count("lockstep.keras.Report is off"), 1, ran.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
