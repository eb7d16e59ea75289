"""What users, other programs and the cluster itself do beside a job that waits or runs."""

import threading

from jobs import JobCase, foreign_pod, is_true
from kubernetes_case import main
from operator_process import Operator
from processes import wait_for
from proxy import Proxy


class ClusterEventsTest(JobCase):
    nodes, gpus = 3, 2

    def test_a_cordoned_node_gets_no_pods(self):
        cordoned = self.hollow.names[0]
        self.admin.patch("Node", cordoned, {"spec": {"unschedulable": True}})
        self.addCleanup(self.admin.patch, "Node", cordoned, {"spec": {"unschedulable": None}})
        self.create_job("whole", 6)
        self.wait_waiting("whole", "6 GPUs", "4")
        self.create_job("rest", 4)
        self.admin.delete("TrainingJob", "whole", self.namespace)
        pods = self.wait_running("rest", 4)
        self.assertNotIn(cordoned, {pod["spec"]["nodeName"] for pod in pods})

    def test_a_running_pod_is_replaced_when_its_node_is_deleted(self):
        name = self.hollow.add(1, gpus=8)[0]
        selector = {"kubernetes.io/hostname": name}
        self.create_job("placed", 2, pod_spec={"nodeSelector": selector})
        self.wait_running("placed", 2)
        self.create_job("other", 2)
        before = {pod["metadata"]["uid"] for pod in self.wait_running("other", 2)}
        self.admin.delete("Node", name)
        # Its pods end, and there is no other node of that name: the job waits, or is lost.
        wait_for(lambda: not is_true(self.job("placed"), "Running"), 120, "the job to notice")
        after = {pod["metadata"]["uid"] for pod in self.wait_running("other", 2)}
        self.assertEqual(before, after)

    def test_a_foreign_pod_takes_the_planned_room(self):
        """It is bound while the plan is being written, which only a proxy can arrange. It stays
        until the gang has been taken back."""
        self.operator.stop()
        proxy = Proxy(self.plane, "operator")
        self.addCleanup(proxy.close)
        first = threading.Lock()  # pods are made side by side: none before the thief is there
        taken = threading.Event()

        def rule(request):
            if request.method == "POST" and request.path.partition("?")[0].endswith("/pods"):
                with first:
                    if not taken.is_set():
                        thief = foreign_pod("thief", self.hollow.names[0], gpus=2)
                        self.admin.create(thief, self.namespace)
                        taken.set()
            return None

        proxy.rule = rule
        between = Operator(self.plane, kubeconfig=proxy.kubeconfig).start()
        try:
            self.create_job("job", 6)
            wait_for(taken.is_set, 30, "the operator to create pods")
            wait_for(lambda: self.job("job")["status"].get("rollbacks", 0) > 0, 60,
                     "the gang to be taken back")
            self.admin.delete("Pod", "thief", self.namespace, gracePeriodSeconds=0)
            self.wait_running("job", 6, 180)
        finally:
            between.stop()
            self.operator.start()

    def test_a_deleted_namespace_ends_everything_in_it(self):
        self.create_job("job", 3)
        self.wait_running("job", 3)
        self.admin.delete("Namespace", self.namespace)
        wait_for(lambda: not self.admin.find("Namespace", self.namespace), 60, "it to go")
        self.namespace = self.make_other_namespace()
        self.create_job("again", 6)
        self.wait_running("again", 6)

    def make_other_namespace(self):
        name = self.namespace + "-2"
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        wait_for(lambda: self.admin.find("ServiceAccount", "default", name), 30, "an account")
        return name


if __name__ == "__main__":
    main()
