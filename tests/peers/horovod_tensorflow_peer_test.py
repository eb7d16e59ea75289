"""A TensorFlow program for Horovod 0.28.1 has the losses of Horovod itself where its one import is
changed to lockstep.horovod.tensorflow; and what a step takes with each. Times are printed and never
asserted."""

import os
import pathlib
import re
import statistics
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "local"))

from harness import BIN, REPOSITORY, LocalTest, command_manifest  # noqa: E402

PYTHON = os.environ.get("LOCKSTEP_HOROVOD_TENSORFLOW_PYTHON", "")
PROGRAM = HERE / "horovod_tensorflow.py"
STEPS = 400
ROUNDS = 3  # of both in turns, as a machine is not the same all the time
SHARED = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}


def losses(text):
    return [float(loss) for _, loss in re.findall(r"step (\d+) loss ([0-9.]+)", text)]


def milliseconds(text):
    return float(re.search(r"each step took ([0-9.]+) ms", text)[1])


@unittest.skipUnless(
    PYTHON, "Horovod is not installed; tests/peers/horovod_tensorflow.sh installs it")
class BesideHorovod(LocalTest):
    def by_horovodrun(self, ranks):
        folder = pathlib.Path(PYTHON).parent
        ran = subprocess.run(
            [folder / "horovodrun", "--gloo", "--network-interfaces", "lo", "-np", str(ranks), "-H",
             f"localhost:{ranks}", PYTHON, "-B", PROGRAM, str(STEPS)],
            capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, **SHARED, "PATH": f"{folder}:{os.environ['PATH']}"})
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def by_lockstep(self, ranks):
        program = self.scratch / PROGRAM.name
        program.write_text(re.sub(r"^import horovod\.", "import lockstep.horovod.",
                                  PROGRAM.read_text(), flags=re.MULTILINE))
        variables = {**SHARED, "PYTHONPATH": REPOSITORY / "trainer-runtime" / "python",
                     "LOCKSTEP_LIBRARY": BIN / "liblockstep.so.1"}
        run = self.run_job(command_manifest(
            ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items()), PYTHON,
             "-B", str(program), str(STEPS)], name="hvd", workers=ranks))
        self.assertEqual(run.exit_code, 0, run.output)
        return run.pod_log("hvd-worker-0")

    def test_same_losses(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                times = {"horovod": [], "lockstep": []}
                for _ in range(ROUNDS if ranks == 2 else 1):
                    peer, own = self.by_horovodrun(ranks), self.by_lockstep(ranks)
                    self.assertEqual((len(losses(peer)), len(losses(own))), (STEPS, STEPS))
                    for one, other in zip(losses(peer), losses(own)):
                        self.assertAlmostEqual(one, other, delta=1e-5)
                    times["horovod"].append(milliseconds(peer))
                    times["lockstep"].append(milliseconds(own))
                horovod, lockstep = (statistics.median(each) for each in times.values())
                print(f"{ranks} ranks, a step: horovod {horovod:.3f} ms, lockstep {lockstep:.3f} "
                      f"ms, {lockstep / horovod:.2f} times as long; all: {times}", flush=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
