"""The example of the first page, with a quarter of its data epochs: what a user reads of it."""

import re
import unittest

from product import ProductCase


class ExampleTest(ProductCase):
    def test_the_example_trains_and_reads_well(self):
        training = self.train(epochs=2)
        training.wait_for("Running", 60)
        self.assertRegex(self.table(), r"(?m)^mnist +Running +3/3 ")
        job = training.wait_for("Succeeded", 300)
        status = job["status"]
        self.assertGreater(status["result"]["testAccuracy"], 0.9)
        self.assertEqual(status["progress"]["step"], status["progress"]["stepsTotal"])
        self.assertRegex(self.table(), r"(?m)^mnist +Succeeded +")
        # Events leave after the status they tell of, so the last one may be on its way.
        training.wait(lambda: "JobSucceeded" in self.events(), 10, "the event of the end")
        self.assertEqual(sorted(self.events()),
                         ["GangPlaced", "GangRunning", "JobCreated", "JobSucceeded"])
        described = self.read("describe", "tj", "mnist")
        self.assertIn("FIELDS", self.read("explain", "trainingjob.spec"))
        print(self.table(), described, sep="\n")

    def events(self):
        """The reasons of the events that a user reads below the job."""
        return re.findall(r"(?m)^  Normal +(\w+) ", self.read("describe", "tj", "mnist"))

    def table(self):
        return self.read("get", "tj", "-o", "wide")

    def read(self, *arguments):
        return self.plane.kubectl(*arguments, "-n", self.namespace)


if __name__ == "__main__":
    unittest.main()
