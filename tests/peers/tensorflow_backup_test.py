"""A TensorFlow program with BackupAndRestore that loses a worker goes on from its backup, in the
same pods; and what that takes, beside TensorFlow alone. Times are printed and never asserted;
LOCKSTEP_BACKUP_RUNS asks for medians of so many runs."""

import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "local"))

from harness import LocalTest, command_manifest  # noqa: E402
from tensorflow_test import free_ports  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("tensorflow_backup.py")
PYTHON = os.environ.get("LOCKSTEP_TENSORFLOW_PYTHON", "")
RUNS = int(os.environ.get("LOCKSTEP_BACKUP_RUNS", "1"))
EPOCHS = 12
STEPS = 8  # of an epoch
WAIT_SECONDS = 180


def command(folder):
    # autograph would leave compiled files in the scratch folder
    return [PYTHON, "-B", str(PROGRAM), str(folder), str(EPOCHS)]


def steps(text):
    return [float(at) for at in re.findall(r"step at ([0-9.]+)", text)]


def first_epochs(text):
    """The epoch that each start of the program began with."""
    return [int(start) for start in re.findall(
        r"is process \d+\n(?:(?!is process).*\n)*?.*epoch (\d+) begins", text)]


def last_loss(text):
    return float(re.findall(rf"epoch {EPOCHS - 1} loss ([0-9.]+)", text)[-1])


@unittest.skipUnless(PYTHON, "TensorFlow is not installed; tests/peers/tensorflow.sh installs it")
class TensorFlowBackup(LocalTest):
    def start_by_hand(self, workers, folder, number):
        processes = []
        for index in range(2):
            config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
            log = (self.scratch / f"by-hand-{index}-{number}.log").open("w")
            self.addCleanup(log.close)
            processes.append(subprocess.Popen(
                command(folder), env={**os.environ, "TF_CONFIG": json.dumps(config)},
                stdout=log, stderr=subprocess.DEVNULL))
        for process in processes:
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        return processes

    def by_hand_log(self, number):
        return (self.scratch / f"by-hand-0-{number}.log").read_text()

    def lose_by_hand(self, run):
        """TensorFlow alone, and somebody who starts both anew as soon as both have ended: seconds
        to the failure of all, to the next step; and the last loss. `run`: its number."""
        workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
        folder = self.scratch / f"by-hand-{run}"
        processes = self.start_by_hand(workers, folder, 2 * run)
        self.wait_for(lambda: len(steps(self.by_hand_log(2 * run))) > 2 * STEPS,
                      seconds=WAIT_SECONDS)
        killed = time.monotonic()
        processes[1].kill()
        self.assertNotEqual(processes[0].wait(timeout=WAIT_SECONDS), 0)
        processes[1].wait()
        failed = time.monotonic()
        processes = self.start_by_hand(workers, folder, 2 * run + 1)
        self.assertEqual([process.wait(timeout=WAIT_SECONDS) for process in processes], [0, 0])
        text = self.by_hand_log(2 * run + 1)
        self.assertGreater(first_epochs(text)[0], 0)
        return failed - killed, steps(text)[0] - killed, last_loss(text)

    def lose_under_a_job(self):
        """Seconds to the next step, and the last loss."""
        shell = "exec " + " ".join(command("$LOCKSTEP_CHECKPOINT_DIR/backup"))
        started = self.start(command_manifest(["sh", "-c", shell], name="backup", backoff_limit=1,
                                              recovery="{relaunch: true}"))
        _, directory, _ = started
        path = directory / "pods" / "backup-worker-0" / "pod.log"
        other = directory / "pods" / "backup-worker-1" / "pod.log"
        self.wait_for(lambda: path.exists() and len(steps(path.read_text())) > 2 * STEPS,
                      seconds=WAIT_SECONDS)
        killed = time.monotonic()
        os.kill(int(re.search(r"task 1 is process (\d+)", other.read_text())[1]), signal.SIGKILL)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(len(run.summary["pods"]), 2, run.output)
        self.assertEqual(run.summary["restarts"], [{"cause": "killed", "count": 1}])
        text = run.pod_log("backup-worker-0")
        first, second = first_epochs(text)
        self.assertEqual(first, 0)
        self.assertGreater(second, 0, "did not go on from the backup")
        return steps(text.split("is process")[2])[0] - killed, last_loss(text)

    def test_killed_once_it_goes_on_from_the_backup(self):
        failed, alone, job = [], [], []
        for run in range(RUNS):
            alone_failed, alone_next, alone_loss = self.lose_by_hand(run)
            job_next, job_loss = self.lose_under_a_job()
            self.assertAlmostEqual(job_loss, alone_loss, places=4)
            for values, value in ((failed, alone_failed), (alone, alone_next), (job, job_next)):
                values.append(round(value, 2))
        print(f"kill to next step: under a TrainingJob {statistics.median(job):.2f} s {job}; "
              f"TensorFlow alone, started anew at once, {statistics.median(alone):.2f} s {alone}, "
              f"of which {statistics.median(failed):.2f} s {failed} to the failure of all",
              flush=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
