"""A waiting gang gets its nodes from a real Karpenter, which knows pods and nothing else."""

from hollow_nodes import GPU
from jobs import JobCase
from karpenter import Karpenter
from kubernetes_case import main

LABEL = "lockstep.dev/placeholder-of"
WAIT = 180


class KarpenterPeerTest(JobCase):
    nodes, gpus = 1, 2
    operator_flags = ("--placeholder-pods",)
    chart_values = ("placeholderPods.enabled=true",)

    @classmethod
    def start_more(cls):
        cls.karpenter = Karpenter(cls.plane)
        super().start_more()

    def made_nodes(self):
        return [node["metadata"]["name"] for node in self.admin.list("Node")
                if "karpenter.sh/nodepool" in node["metadata"]["labels"]]

    def placeholders(self):
        return self.admin.list("Pod", self.namespace, labels=LABEL)

    def test_a_gang_without_room_gets_as_many_nodes_as_it_lacks_and_they_go_after_it(self):
        self.create_job("grows", 4, scheduling={"provisioning": "Pods"})
        pods = self.wait_running("grows", 4, seconds=WAIT)
        made = self.made_nodes()
        self.assertEqual(len(made), 2, "two of four GPUs were there")
        self.assertTrue(set(made) < {pod["spec"]["nodeName"] for pod in pods})
        self.assertEqual(self.job("grows")["status"].get("rollbacks", 0), 0)
        self.wait_for(lambda: not self.placeholders(), WAIT, "the placeholders to go")
        self.assertTrue(all(node["status"]["allocatable"][GPU] == "1" for node in
                            self.admin.list("Node") if node["metadata"]["name"] in made))

        self.admin.delete("TrainingJob", "grows", self.namespace)
        self.wait_for(lambda: not self.made_nodes(), WAIT, "Karpenter to remove empty nodes")


if __name__ == "__main__":
    main()
