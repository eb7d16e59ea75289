"""What others decide about pods while they are created: webhooks, and a LimitRange."""

import collections
import threading
import time
import unittest

from product import UNFORGIVING, ProductCase  # lets us import from other folders
from jobs import condition
from webhook import Refusal, Webhook

ANSWER_SECONDS = 8
LARGE_CPU = 500  # thousandths of a core


class AdmissionTest(ProductCase):
    def test_a_replacement_that_is_denied_or_late_leaves_survivors_alone(self):
        """Worker 0 of each job survives. Each replacement is denied once, each in another way."""
        gate = Gate()
        webhook = Webhook(self.plane, gate.judge, ["denied", "late"])
        self.addCleanup(webhook.close)
        webhook.register()
        denied = self.train("denied", epochs=300, role={"replicas": 4}, run_policy=UNFORGIVING)
        late = self.train("late", epochs=300, role={"replicas": 2}, run_policy=UNFORGIVING)
        for training in (denied, late):
            training.wait_steps()
        before = {training: training.containers() for training in (denied, late)}
        gate.close()
        for training in (late, denied):
            for task, pod in training.pods().items():
                if task != "worker-0":
                    self.admin.delete("Pod", pod["metadata"]["name"], self.namespace)
        denied.wait(lambda: self.reason_is_shown(denied), 30, "the server's words to be shown")
        for training in (denied, late):
            training.wait_steps()
            self.assert_survived(training, before[training])
        self.assertEqual(gate.asked, {"denied-worker-1-r1": 2, "denied-worker-2-r1": 2,
                                      "denied-worker-3-r1": 2, "late-worker-1-r1": 1})

    def reason_is_shown(self, training):
        found = condition(training.job(), "Restarting")
        return found and found[0] and "webhook" in found[2] and "no one shall pass" in found[2]

    def assert_survived(self, training, before):
        name = f"{training.name}-worker-0"
        self.assertEqual(training.containers()[name], before[name])
        training.wait_for("Running")
        status = training.job()["status"]
        self.assertEqual(status.get("attempt", 0), 0)
        self.assertEqual(status["restartCount"], len(before) - 1)
        self.assertEqual(self.incidents(training), [])

    def test_pods_that_a_limit_range_enlarges_are_planned_as_they_are_the_next_time(self):
        home, away = self.product.home_and_away()
        self.leave_cpu(home, LARGE_CPU)
        self.leave_cpu(away, 2 * LARGE_CPU)
        large = {"cpu": f"{LARGE_CPU}m"}
        self.admin.create({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "large"},
            "spec": {"limits": [{"type": "Container", "default": large, "defaultRequest": large}]},
        }, self.namespace)
        training = self.start_command("fits", 3)
        hopeless = self.start_command("hopeless", 4)
        training.wait(lambda: self.all_run(training), 60, "the gang to run")
        status = training.job()["status"]
        self.assertEqual(status["admitted"],
                         [{"role": "worker", "resource": "cpu", "amount": LARGE_CPU}])
        self.assertEqual((status.get("restartCount", 0), self.incidents(training)), (0, []))
        self.assertEqual(self.nodes_of(training), {home.name, away.name})
        hopeless.wait(lambda: self.waits_for_cpu(hopeless), 60, "the reason to be shown")

    def waits_for_cpu(self, training):
        found = condition(training.job(), "Scheduled")
        return found and not found[0] and "needs 2 CPU" in found[2] and not training.pods()


class Gate:
    """While it is open everybody passes. Once closed it asks who comes, and has its ways."""

    def __init__(self):
        self.asked = collections.Counter()
        self._is_closed = False
        self._lock = threading.Lock()

    def close(self):
        self._is_closed = True

    def judge(self, pod):
        if not self._is_closed:
            return
        name = pod["metadata"]["name"]
        with self._lock:
            self.asked[name] += 1
            is_first = self.asked[name] == 1
        if not is_first:
            return
        if name.startswith("late-"):
            time.sleep(ANSWER_SECONDS)
        elif name.startswith("denied-worker-1"):
            raise Refusal("no one shall pass")
        elif name.startswith("denied-worker-2"):
            raise Refusal("no one shall pass", code=400)
        else:
            raise ValueError("no one shall pass")


if __name__ == "__main__":
    unittest.main()
