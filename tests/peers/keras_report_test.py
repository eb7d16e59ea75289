"""lockstep.keras.Report in real TensorFlow: what Keras has done is what the job's status shows."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "local"))

from harness import BIN, REPOSITORY, LocalTest, command_manifest  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("tensorflow_report.py")
PYTHON = os.environ.get("LOCKSTEP_TENSORFLOW_PYTHON", "")
VARIABLES = {"PYTHONPATH": str(REPOSITORY / "trainer-runtime" / "python"),
             "LOCKSTEP_LIBRARY": str(BIN / "liblockstep.so.1")}
# autograph would leave compiled files in the scratch folder
COMMAND = ["/usr/bin/env", *(f"{name}={value}" for name, value in VARIABLES.items()),
           PYTHON, "-B", str(PROGRAM), "3"]
STEPS = 3 * 8  # 256 samples in batches of 32


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
        self.assertNotIn("reports nothing", run.pod_log("keras-worker-0"))

    def test_multi_worker_mirrored_beside_its_own_server(self):
        self.check(workers=2, keras=1)

    def test_one_process_with_tf_keras(self):
        self.check(workers=1, keras=1)

    def test_one_process_with_keras_3(self):
        self.check(workers=1, keras=0)

    def test_by_hand_it_says_that_nothing_is_reported(self):
        ran = subprocess.run(COMMAND, capture_output=True, text=True, check=False, timeout=100)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stderr.count("lockstep.keras.Report reports nothing"), 1, ran.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
