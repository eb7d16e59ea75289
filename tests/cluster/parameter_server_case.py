"""Parameter servers in pods: one is lost, and the workers train on with its neighbour."""

import json
import time
import unittest

from product import ProductCase

ROLES = [{"name": "worker", "replicas": 2, "gpus": 0}, {"name": "ps", "replicas": 2}]
FILLED_SECONDS = 60  # a bound; what it took is printed


class ParameterServerTest(ProductCase):
    def test_a_killed_container_and_a_deleted_pod_of_a_ps_disturb_nobody(self):
        training = self.train(epochs=20, spec={"strategy": "ParameterServer", "roles": ROLES})
        harms = (("ps-1", self.product.kill_container), ("ps-0", self.delete))
        training.wait(lambda: self.step(training) > 0, 120, "worker 0 to train")
        for task, harm in harms:
            before = training.containers()
            victim = training.pods()[task]
            began = time.monotonic()
            harm(victim)
            training.wait(lambda: self.is_filled(training, task, victim), FILLED_SECONDS,
                          "two copies of each shard")
            print(f"{task}, {harm.__name__}: {time.monotonic() - began:.2f} s")
            step = self.step(training)
            training.wait(lambda: self.step(training) > step, 30, "the next step")
            after = training.containers()
            del before[victim["metadata"]["name"]]
            self.assertEqual(before, {name: after.get(name) for name in before})
        job = training.wait_for("Succeeded", 300)
        restarts = job["status"]["restarts"]
        self.assertEqual(sum(each["count"] for each in restarts), len(harms), restarts)
        ended = training.pods()["worker-0"]["status"]["containerStatuses"][0]["state"]["terminated"]
        samples = json.loads(ended["message"])["samples"]
        self.assertEqual(samples["consumed"], samples["expected"])
        self.assertEqual((samples["lost"], samples["repeated"]), (0, 0))

    def step(self, training):
        """Of worker 0; 0 while it says none."""
        pod = training.pods().get("worker-0")
        document = training.status(pod) if pod else None
        return document["step"] if document else 0

    def is_filled(self, training, task, victim):
        """Whether the successor's copies follow."""
        pod = training.pods().get(task)
        if pod is None or pod["metadata"]["uid"] == victim["metadata"]["uid"]:
            return False
        document = training.status(pod)
        return document is not None and any(
            each["event"] == "state_ready" for each in document["timeline"])

    def delete(self, pod):
        self.admin.delete("Pod", pod["metadata"]["name"], self.namespace)


if __name__ == "__main__":
    unittest.main()
