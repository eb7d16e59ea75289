"""Two pods of two processes each, on one node and on two: gradients go by shared memory within a
pod and by TCP between pods, and whoever is not lost itself keeps its process."""

import os
import pathlib
import signal
import unittest

from product import NODE_GRACE, ProductCase
from training import TRAINER

PROCESSES = 2
DETAIL = "shared memory within a host, TCP between hosts"


def children_of(pid):
    return sorted(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


class ProcessesTest(ProductCase):
    def test_on_one_node_a_lost_process_and_a_lost_pod_leave_the_others_alone(self):
        home, _ = self.product.home_and_away()
        training = self.start({"nodeSelector": {"kubernetes.io/hostname": home.name},
                               "containers": [TRAINER]})
        self.assert_backend(training, nodes=1)
        self.lose_process(training)
        self.lose_pod(training)

    def test_on_two_nodes_a_lost_process_pod_and_node_leave_the_others_alone(self):
        home, away = self.product.home_and_away()
        ballast = [self.leave_cpu(node, 450) for node in (home, away)]
        training = self.start({"containers": [TRAINER]})
        self.assert_backend(training, nodes=2)
        self.lose_process(training)
        for name in ballast:
            self.admin.delete("Pod", name, self.namespace, gracePeriodSeconds=0)
        self.lose_pod(training)
        self.lose_node(training, away)

    def start(self, pod_spec):
        role = {"replicas": 2, "processes": PROCESSES, "template": {"spec": pod_spec}}
        training = self.train(epochs=300, role=role)  # more than it ever trains here
        training.wait_steps()
        return training

    def assert_backend(self, training, nodes):
        self.assertEqual(len(self.nodes_of(training)), nodes)
        for pod in training.pods().values():
            document = training.wait_status(pod)
            self.assertEqual((document["worldSize"], document["backend"]),
                             (2 * PROCESSES, "hierarchical"))
            self.assertIn(DETAIL, document["backendDetail"])

    def lose_process(self, training):
        before = training.containers()
        processes = self.processes(training)
        victim, sibling = processes.pop("worker-1")
        epoch = self.epoch(training)
        os.kill(victim, signal.SIGKILL)
        training.wait(lambda: self.epoch(training) > epoch, 60, "the ranks to meet again")
        training.wait_steps()
        after = self.processes(training)
        self.assertIn(sibling, after.pop("worker-1"))
        self.assertEqual(after, processes)
        self.assertEqual(training.containers(), before)

    def lose_pod(self, training):
        self.lose(training, "worker-1", lambda pod: self.admin.delete(
            "Pod", pod["metadata"]["name"], self.namespace, gracePeriodSeconds=0))

    def lose_node(self, training, node):
        lost = [task for task, pod in training.pods().items()
                if pod["spec"]["nodeName"] == node.name]
        self.assertEqual(len(lost), 1, "both pods on the node that is to crash")
        self.addCleanup(self.cluster.wait_ready, node)
        self.addCleanup(node.start)
        self.lose(training, lost[0], lambda pod: node.crash(), 2 * NODE_GRACE)

    def lose(self, training, task, harm, *patience):
        processes = self.processes(training)
        del processes[task]
        print(f"{task}: {training.measure_recovery(task, harm, *patience)}")
        training.wait_steps()
        after = self.processes(training)
        del after[task]
        self.assertEqual(after, processes)

    def epoch(self, training):
        """Of the newest meeting that worker 0 knows."""
        return training.wait_status(training.pods()["worker-0"])["epoch"]

    def processes(self, training):
        """The training processes of each task, as this machine sees them."""
        found = {}

        def are_all_seen():  # the kernel's list of children may lack some while it is read
            found.clear()
            found.update({task: children_of(self.product.node_of(pod).container_pid(pod))
                          for task, pod in training.pods().items()})
            return all(len(children) == PROCESSES for children in found.values())

        training.wait(are_all_seen, 10, f"{PROCESSES} processes in each pod")
        return found


if __name__ == "__main__":
    unittest.main()
