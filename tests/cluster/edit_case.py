"""The manifest of a running job is edited, and then it loses a pod: ranks never disagree."""

import unittest

from product import UNFORGIVING, ProductCase  # lets us import from other folders
from jobs import condition


class EditTest(ProductCase):
    def test_an_edit_waits_for_the_next_gang_which_a_lost_pod_brings(self):
        training = self.train(epochs=300, role={"replicas": 2}, run_policy=UNFORGIVING)
        training.wait_steps()
        before, steps = training.containers(), self.steps_total(training)
        self.admin.patch("TrainingJob", training.name, {"spec": {"training": {"epochs": 400}}},
                         self.namespace)
        told = training.wait(lambda: self.changed(training), 20, "the edit to be seen")
        self.assertIn("suspend", told)
        training.wait_steps()
        self.assertEqual(training.containers(), before, "the gang that runs is left as it is")
        self.admin.delete("Pod", training.pods()["worker-1"]["metadata"]["name"], self.namespace)
        training.wait(lambda: training.job()["status"].get("attempt") == 1, 60, "a new gang")
        training.wait_steps()
        self.assertFalse(self.changed(training))
        self.assertFalse({uid for uid, *_ in before.values()} &
                         {uid for uid, *_ in training.containers().values()})
        status = training.job()["status"]
        self.assertEqual(self.incidents(training), [])
        self.assertEqual(status["origin"]["generation"], status["observedGeneration"])
        training.wait(lambda: self.steps_total(training) * 300 == steps * 400, 20,
                      "the new manifest's number of steps")

    def changed(self, training):
        """What is said about an edit that has to wait; nothing where there is none."""
        _, reason, message = condition(training.job(), "Scheduled")
        return message if reason == "ManifestChanged" else None

    def steps_total(self, training):
        def told():
            return training.job()["status"].get("progress", {}).get("stepsTotal")

        return training.wait(told, 20, "the number of steps")


if __name__ == "__main__":
    unittest.main()
