"""Nodes without machines: kwok plays their kubelets, as stages.yaml says.

    nodes = HollowNodes(plane, count=200, gpus=8)
    nodes.end_pod("worker-3", exit_code=137, reason="OOMKilled")"""

import concurrent.futures
import pathlib
import time
import urllib.request

from client import ApiError
from processes import wait_for
from tools import tool

GPU = "nvidia.com/gpu"
_HEALTH_PORT = 10247
_LEASE_SECONDS = 40
_WRITERS = 8
_STAGES = pathlib.Path(__file__).with_name("stages.yaml")
_ANNOTATION = "hollow.test/"


def make_nodes(admin, names, gpus=8, kind="hollow", cpu="96", memory="1Ti"):
    """Creates node objects that nobody stands behind yet."""
    room = {"cpu": cpu, "memory": memory, "pods": "110"}
    if gpus:
        room[GPU] = str(gpus)

    def make(name):
        admin.create({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"type": kind, "kubernetes.io/hostname": name}},
            "status": {"capacity": room, "allocatable": room},
        })

    with concurrent.futures.ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(make, names))


def is_ready(node):
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


class HollowNodes:
    """kwok and its first nodes, named hollow-000, hollow-001, …; ends with the control plane."""

    def __init__(self, plane, count, gpus=8):
        self._plane, self._admin = plane, plane.admin
        self.names = []
        health = f"{plane.local_address}:{_HEALTH_PORT}"
        # kwok renews a lease four times in its duration: often enough for the controllers.
        lease_seconds = plane.node_grace or _LEASE_SECONDS
        kwok = plane.run(
            "kwok", tool("kwok"), "--kubeconfig", plane.kubeconfig("hollow-nodes"),
            "--config", _STAGES, "--cidr", "10.78.0.0/16", "--node-ip", "127.0.0.1",
            "--manage-nodes-with-label-selector", "type=hollow",
            "--node-lease-duration-seconds", lease_seconds, "--server-address", health,
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def is_healthy():
            try:
                with opener.open(f"http://{health}/healthz", timeout=5):
                    return True
            except OSError:
                return False

        kwok.wait_ready(is_healthy)
        self.add(count, gpus)

    def add(self, count, gpus=8):
        """Adds nodes and waits until all are ready; returns their names."""
        first = len(self.names)
        added = [f"hollow-{index:03}" for index in range(first, first + count)]
        make_nodes(self._admin, added, gpus)
        self.names += added

        def all_ready():
            nodes = filter(is_ready, self._admin.list("Node"))
            return {node["metadata"]["name"] for node in nodes}.issuperset(added)

        wait_for(all_ready, 30 + count / 20, f"{count} hollow nodes")
        return added

    def crash(self, name):
        """The node's kubelet does nothing any more, and its lease runs out."""
        self._admin.patch("Node", name, {"metadata": {"labels": {"type": "crashed"}}})

    def end_pod(self, name, namespace="default", exit_code=0, **more):
        """Lets a running pod end; `more` are reason and message, see stages.yaml."""
        annotations = {"exit-code": str(exit_code), **more}
        body = {"metadata": {"annotations": {_ANNOTATION + k: v for k, v in annotations.items()}}}
        self._admin.patch("Pod", name, body, namespace)


class PlayedNode:
    """A node whose kubelet is the test: pods bound to it stay Pending until the test says more."""

    def __init__(self, plane, name, gpus=8):
        self.name = name
        self._admin = plane.admin
        make_nodes(self._admin, [name], gpus, kind="played")
        self.set_ready("True")

    def set_ready(self, status):
        """Counts as a heartbeat: without one in 40 s the node is taken for lost."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        conditions = [
            {"type": "Ready", "status": status, "reason": "Test", "lastHeartbeatTime": now}]
        body = {"status": {"conditions": conditions}}
        self._admin.patch("Node", self.name, body, subresource="status", how="strategic")

    def pods(self, namespace):
        return self._admin.list("Pod", namespace, fields=f"spec.nodeName={self.name}")

    def set_pod_status(self, name, namespace, status):
        """`status` is merged into the pod's, e.g. {"phase": "Failed", "reason": "Evicted"}."""
        self._admin.patch("Pod", name, {"status": status}, namespace, "status")

    def run(self, name, namespace):
        self.set_pod_status(name, namespace, {"phase": "Running"})

    def fail_to_pull(self, name, namespace):
        waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
        self.set_pod_status(name, namespace, {"containerStatuses": [{
            "name": "trainer", "image": "x", "imageID": "", "ready": False, "restartCount": 0,
            "state": {"waiting": waiting},
        }]})

    def refuse(self, name, namespace):
        """As a kubelet does when a device plugin has no healthy device left."""
        self.set_pod_status(name, namespace, {
            "phase": "Failed",
            "reason": "UnexpectedAdmissionError",
            "message": "Allocate failed due to no healthy devices present, which is unexpected",
        })

    def remove(self, name, namespace):
        """What a kubelet does last to a pod that is being deleted."""
        try:
            self._admin.delete("Pod", name, namespace, gracePeriodSeconds=0)
        except ApiError as error:
            if error.code != 404:
                raise
