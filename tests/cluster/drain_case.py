"""A node is drained, as before its maintenance: that is nobody's failure, and costs no budget."""

import unittest

from product import UNFORGIVING, ProductCase

# Saves, and ends with success when it is asked to go, as programs do. Ends by itself when told.
PROGRAM = """
trap 'exit 0' TERM
echo ready
until [ -e /tmp/done ]; do sleep 0.1 & wait $!; done
"""
RANK_CPU = 200  # thousandths of a core


class DrainTest(ProductCase):
    def test_7_of_8_ranks_go_on_elsewhere_at_the_step_of_the_eighth(self):
        home, away = self.product.home_and_away()
        ballast = [self.leave_cpu(home, RANK_CPU), self.leave_cpu(away, 7 * RANK_CPU)]
        trainer = {"name": "trainer", "resources": {"requests": {"cpu": f"{RANK_CPU}m"}}}
        training = self.train(
            epochs=300, run_policy=UNFORGIVING,
            role={"replicas": 8, "template": {"spec": {"containers": [trainer]}}})
        training.wait_steps()
        for name in ballast:
            self.admin.delete("Pod", name, self.namespace, gracePeriodSeconds=0)
        (survivor,) = [pod for pod in training.pods().values()
                       if pod["spec"]["nodeName"] == home.name]
        name = survivor["metadata"]["name"]
        before, step = training.containers()[name], training.wait_status(survivor)["step"]
        self.drain(away)
        training.wait_steps()
        self.assertEqual(self.nodes_of(training), {home.name})
        self.assertEqual(training.containers()[name], before)
        self.assertGreaterEqual(training.wait_status(survivor)["step"], step)
        self.assertEqual(self.incidents(training), [])
        training.wait_for("Running")

    def test_ranks_that_exit_0_when_they_are_drained_have_not_finished(self):
        home, away = self.product.home_and_away()
        self.cordon(home)
        program = {"command": ["sh", "-c", PROGRAM]}
        supervised = {**program, "image": self.product.user_image}
        jobs = [self.start_command("bare", 2, program, grace=20, successPolicy="AllWorkers"),
                self.start_command("supervised", 2, supervised, supervise=True, grace=20)]
        for training in jobs:
            self.wait_ready(training, away)
        self.set_schedulable(home, True)
        self.drain(away)
        for training in jobs:
            self.wait_ready(training, home)
            self.assertEqual(self.incidents(training), [])
            for pod in training.pods().values():
                self.plane.kubectl("exec", pod["metadata"]["name"], "-n", self.namespace, "--",
                                   "touch", "/tmp/done")
            training.wait_for("Succeeded", 60)

    def wait_ready(self, training, node):
        """Waits until all ranks run on that node, and have said so."""
        training.wait(lambda: self.all_run(training) and self.nodes_of(training) == {node.name} and
                      all(map(self.said, training.pods().values())), 60,
                      f"the ranks to be ready on {node.name}")

    def said(self, pod):
        return "ready" in self.admin.log(pod["metadata"]["name"], self.namespace)

    def drain(self, node):
        self.cordon(node)
        self.plane.kubectl("drain", node.name, "--delete-emptydir-data", "--timeout=90s")

    def cordon(self, node):
        self.set_schedulable(node, False)
        self.addCleanup(self.set_schedulable, node, True)


if __name__ == "__main__":
    unittest.main()
