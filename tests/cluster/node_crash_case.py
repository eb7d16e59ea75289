"""A node dies at one stroke, and comes back: nobody waits for what its kubelet would have to do."""

import unittest

from product import NODE_GRACE, ProductCase  # lets us import from other folders
from processes import wait_for
from training import BESIDE_OTHERS


class NodeCrashTest(ProductCase):
    def test_a_crashed_node_is_left_at_once_and_its_worker_is_refused_when_it_is_back(self):
        home, away = self.product.home_and_away()
        ballast = [self.leave_cpu(home, 700), self.leave_cpu(away, 500)]
        training = self.train(epochs=300, role=BESIDE_OTHERS)
        training.wait_steps()
        for name in ballast:
            self.admin.delete("Pod", name, self.namespace, gracePeriodSeconds=0)
        (task,) = [task for task, pod in training.pods().items()
                   if pod["spec"]["nodeName"] == away.name]
        gone = training.pods()[task]["metadata"]["uid"]
        recovery = training.measure_recovery(task, lambda pod: away.crash(), 2 * NODE_GRACE)
        print(f"node crash: {recovery}; Kubernetes takes {NODE_GRACE} s and more to notice")
        self.assert_nobody_waited_for_kubernetes(training, task, away)
        away.start()
        self.cluster.wait_ready(away)
        wait_for(lambda: gone not in self.uids(), 60, "the zombie to go")
        training.wait_steps()

    def assert_nobody_waited_for_kubernetes(self, training, task, node):
        """It notices later than the successor's creation, if it has noticed at all."""
        (ready,) = [each for each in self.admin.get("Node", node.name)["status"]["conditions"]
                    if each["type"] == "Ready"]
        if ready["status"] != "True":
            created = training.pods()[task]["metadata"]["creationTimestamp"]
            self.assertLessEqual(created, ready["lastTransitionTime"])

    def uids(self):
        return {pod["metadata"]["uid"] for pod in self.admin.list("Pod", self.namespace)}


if __name__ == "__main__":
    unittest.main()
