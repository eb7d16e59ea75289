"""What happens to jobs while the operator is killed, upgraded and uninstalled."""

import unittest

from product import ProductCase  # lets us import from other folders
from helm import CHART
from operator_process import NAMESPACE
from processes import wait_for
from training import BESIDE_OTHERS

# What the chart's notes say.
LEFT = {"CustomResourceDefinition": ["trainingjobs.lockstep.dev", "trainingqueues.lockstep.dev"],
        "ClusterRole": [], "ClusterRoleBinding": []}
LEFT_IN_NAMESPACE = {"Pod": [], "Service": [], "Role": [], "RoleBinding": [],
                     "Secret": ["lockstep-key"], "Lease": ["lockstep"],
                     "ServiceAccount": ["default"]}


class ReleaseTest(ProductCase):
    def test_jobs_outlive_a_killed_an_upgraded_and_an_uninstalled_operator(self):
        training = self.train(epochs=300, role=BESIDE_OTHERS)
        training.wait_steps()
        containers = training.containers()
        before = self.product.operator_pod()
        self.product.kill_container(before)
        self.wait_progress(training)
        self.product.helm("upgrade", "lockstep", CHART, "--wait", "--reset-then-reuse-values",
                          "--set", "log.level=debug")
        self.wait_progress(training)
        self.assertNotEqual(self.product.operator_pod()["metadata"]["uid"],
                            before["metadata"]["uid"])
        self.product.helm("uninstall", "lockstep", "--wait")
        self.addCleanup(self.product.install)
        wait_for(lambda: not self.admin.list("Pod", NAMESPACE), 60, "the operator to end")
        self.assertEqual(self.what_is_left(), {**LEFT, **LEFT_IN_NAMESPACE})
        training.wait_steps()
        self.assertEqual(training.containers(), containers)
        self.assertEqual(training.job()["status"].get("restarts", []), [])

    def wait_progress(self, training):
        """Waits until the operator writes down that training has gone on."""
        def step():
            return training.job()["status"].get("progress", {}).get("step", 0)

        known = step()
        wait_for(lambda: step() > known, 60, f"the job's status to go beyond step {known}")

    def what_is_left(self):
        left = {}
        for kind in LEFT:
            names = [each["metadata"]["name"] for each in self.admin.list(kind)]
            left[kind] = [name for name in names if "lockstep" in name]
        for kind in LEFT_IN_NAMESPACE:
            left[kind] = [each["metadata"]["name"] for each in self.admin.list(kind, NAMESPACE)]
        return left


if __name__ == "__main__":
    unittest.main()
