"""Hollow nodes behave as nodes, as far as a control plane can tell."""

from control_plane import CONTROL_PLANE_TOOLS
from hollow_nodes import GPU, HollowNodes, PlayedNode, is_ready
from kubernetes_case import KubernetesCase, main
from processes import wait_for


def gpu_pod(name, gpus, annotations=None, node=None):
    container = {"name": "main", "image": "none", "resources": {"limits": {GPU: str(gpus)}}}
    spec = {"containers": [container], "initContainers": [{"name": "first", "image": "none"}]}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    metadata = {"name": name, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class HollowNodesTest(KubernetesCase):
    options = {"crds": [], "node_grace": 4}
    tools = (*CONTROL_PLANE_TOOLS, "kwok")

    @classmethod
    def start_more(cls):
        cls.hollow = HollowNodes(cls.plane, count=2, gpus=4)

    def setUp(self):
        self.namespace = self.make_namespace()
        self.addCleanup(self.admin.delete_all, "Pod", self.namespace, gracePeriodSeconds=0)

    def create(self, *arguments, **options):
        self.admin.create(gpu_pod(*arguments, **options), self.namespace)

    def pod(self, name):
        return self.admin.get("Pod", name, self.namespace)

    def wait_phase(self, name, phase):
        wait_for(lambda: self.pod(name)["status"].get("phase") == phase, 30, f"{name} {phase}")
        return self.pod(name)

    def test_pods_run_where_there_are_devices_left(self):
        for index in range(3):
            self.create(f"pod-{index}", 3)
        running = {}

        def two_run():
            pods = self.admin.list("Pod", self.namespace)
            running.update({pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods
                            if pod["status"].get("phase") == "Running"})
            return len(running) == 2

        wait_for(two_run, 30, "two of three pods to run")
        self.assertEqual(set(running.values()), set(self.hollow.names[:2]))
        name = next(iter(running))
        self.assertTrue(self.pod(name)["status"]["podIP"])
        self.assertEqual(len(self.pod(name)["status"]["initContainerStatuses"]), 1)
        self.admin.delete("Pod", name, self.namespace)
        running.clear()
        wait_for(two_run, 30, "the third to take the place of the first")

    def test_a_pod_ends_as_it_is_told(self):
        self.create("pod", 1)
        self.wait_phase("pod", "Running")
        self.hollow.end_pod("pod", self.namespace, exit_code=137, reason="OOMKilled", message="{}")
        status = self.wait_phase("pod", "Failed")["status"]["containerStatuses"][0]
        ended = status["state"]["terminated"]
        self.assertEqual((ended["exitCode"], ended["reason"], ended["message"]),
                         (137, "OOMKilled", "{}"))

    def test_a_pod_ends_by_itself(self):
        annotations = {"hollow.test/run-for": "10ms", "hollow.test/exit-code": "0"}
        self.create("pod", 1, annotations)
        self.wait_phase("pod", "Succeeded")

    def test_a_played_node_leaves_its_pods_to_the_test(self):
        node = PlayedNode(self.plane, "played", gpus=1)
        self.addCleanup(self.admin.delete, "Node", "played")
        self.create("pod", 1, node="played")
        wait_for(lambda: node.pods(self.namespace), 30, "the pod to be bound")
        self.assertEqual(self.pod("pod")["status"]["phase"], "Pending")
        node.refuse("pod", self.namespace)
        self.assertEqual(self.pod("pod")["status"]["reason"], "UnexpectedAdmissionError")
        self.admin.delete("Pod", "pod", self.namespace)
        wait_for(lambda: not self.admin.find("Pod", "pod", self.namespace), 10, "the pod to go")

    def test_a_crashed_node_is_lost_after_a_while(self):
        name = self.hollow.add(1, gpus=1)[0]
        self.hollow.crash(name)
        wait_for(lambda: not is_ready(self.admin.get("Node", name)), 60, "the node to be lost")
        others = [node for node in self.admin.list("Node") if node["metadata"]["name"] != name]
        self.assertTrue(all(map(is_ready, others)))


if __name__ == "__main__":
    main()
