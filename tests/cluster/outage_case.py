"""The API server, and the names of the cluster, are gone for a while: those who train go on."""

import os
import signal
import time
import unittest

from product import NODE_GRACE, ProductCase  # lets us import from other folders
from training import BESIDE_OTHERS

OUTAGE_SECONDS = int(os.environ.get("LOCKSTEP_OUTAGE_SECONDS", "20"))


class OutageTest(ProductCase):
    def test_training_goes_on_while_nobody_answers(self):
        training = self.train(epochs=3000, role=BESIDE_OTHERS)
        training.wait_steps()
        before = training.containers()
        pods = training.pods()
        programs = [self.plane.program("kube-apiserver"), self.plane.program("coredns")]
        began = self.steps(training, pods)
        try:
            for program in programs:
                os.kill(program.pid, signal.SIGSTOP)
            time.sleep(OUTAGE_SECONDS)  # what is tested is that time passes
            ended = self.steps(training, pods)
        finally:
            for program in programs:
                os.kill(program.pid, signal.SIGCONT)
        for task, step in began.items():
            self.assertGreater(ended[task], step, task)
        print(f"an outage of {OUTAGE_SECONDS} s: {began} to {ended}")
        time.sleep(NODE_GRACE)  # as long as others may take wrong action upon it
        self.assertEqual(training.containers(), before)
        self.assertEqual(training.job()["status"].get("restarts", []), [])

    def steps(self, training, pods):
        return {task: training.wait_status(pod)["step"] for task, pod in pods.items()}


if __name__ == "__main__":
    unittest.main()
