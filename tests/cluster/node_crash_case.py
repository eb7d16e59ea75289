"""A node dies at one stroke, and comes back: nobody waits for what its kubelet would have to do."""

import unittest

from product import NODE_GRACE, ProductCase  # lets us import from other folders
from images import BASE
from processes import wait_for


class NodeCrashTest(ProductCase):
    def test_a_crashed_node_is_left_at_once_and_its_worker_is_refused_when_it_is_back(self):
        home = self.product.node_of(self.product.operator_pod())
        (away,) = [node for node in self.cluster.nodes if node is not home]
        ballast = [self.hold_cpu(home, "500m"), self.hold_cpu(away, "1")]
        trainer = {"name": "trainer", "resources": {"requests": {"cpu": "600m"}}}
        training = self.train(
            epochs=300, role={"template": {"spec": {"containers": [trainer]}}})
        training.wait_steps()
        for name in ballast:
            self.admin.delete("Pod", name, self.namespace, gracePeriodSeconds=0)
        (task,) = [task for task, pod in training.pods().items()
                   if pod["spec"]["nodeName"] == away.name]
        gone = training.pods()[task]["metadata"]["uid"]
        recovery = training.measure_recovery(task, lambda pod: away.crash(), 2 * NODE_GRACE)
        print(f"node crash: {recovery}")
        away.start()
        self.cluster.wait_ready(away)
        wait_for(lambda: gone not in self.uids(), 60, "the zombie to go")
        training.wait_steps()
        # Before Kubernetes notices, also where other tests keep the cores busy.
        self.assertLess(recovery.total, NODE_GRACE)

    def uids(self):
        return {pod["metadata"]["uid"] for pod in self.admin.list("Pod", self.namespace)}

    def hold_cpu(self, node, amount):
        name = f"ballast-{node.name}"
        security = {"runAsNonRoot": True, "runAsUser": 65532, "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}
        self.admin.create({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": node.name},
                "containers": [{"name": "main", "image": BASE, "command": ["sleep", "1000"],
                                "resources": {"requests": {"cpu": amount}},
                                "securityContext": security}],
            },
        }, self.namespace)

        def runs():
            return self.admin.get("Pod", name, self.namespace)["status"]["phase"] == "Running"

        wait_for(runs, 30, "the ballast")
        return name


if __name__ == "__main__":
    unittest.main()
