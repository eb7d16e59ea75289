"""What is lost while training, in every way that Kubernetes knows: the others go on with a new one.
tests/bench/cluster measures the same many times."""

import json
import unittest

from product import ProductCase
from training import BESIDE_OTHERS


class RecoveryTest(ProductCase):
    def test_a_killed_container_and_deleted_pods_disturb_nobody_for_long(self):
        training = self.train(epochs=5, role=BESIDE_OTHERS)
        harms = (("worker-1", self.product.kill_container),
                 ("worker-2", self.delete_as_kubectl_does),
                 ("worker-0", self.delete_at_once))
        for task, harm in harms:
            training.wait_steps()
            before = training.containers()
            victim = training.pods()[task]["metadata"]["name"]
            recovery = training.measure_recovery(task, harm)
            print(f"{task}, {harm.__name__}: {recovery}")
            after = training.containers()
            del before[victim]
            self.assertEqual(before, {name: after.get(name) for name in before})
        job = training.wait_for("Succeeded", 300)
        restarts = job["status"]["restarts"]
        self.assertEqual(sum(each["count"] for each in restarts), len(harms), restarts)
        said = json.loads(self.final_words(training, "worker-0"))
        self.assertEqual((said["samples"]["lost"], said["samples"]["repeated"]), (0, 0))

    def delete_as_kubectl_does(self, pod):
        self.admin.delete("Pod", pod["metadata"]["name"], self.namespace)

    def delete_at_once(self, pod):
        self.admin.delete("Pod", pod["metadata"]["name"], self.namespace, gracePeriodSeconds=0)

    def final_words(self, training, task):
        """Its termination message. The API server has been seen without it after the success."""
        def words():
            status = training.pods()[task]["status"]["containerStatuses"][0]
            return status["state"].get("terminated", {}).get("message")

        return training.wait(words, 30, f"{task} to have ended with a message")


if __name__ == "__main__":
    unittest.main()
