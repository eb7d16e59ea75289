"""The cluster of our tests is a real one: what the other tests rely on, one by one."""

import json
import os
import pathlib
import unittest

from cluster_case import ClusterCase, main, require_cluster
from cluster import ALIAS, Cluster, remove_leftovers, wait_for_turn
from hollow_nodes import GPU, is_ready
from images import BASE
from node import CGROUPS, ip
from processes import wait_for

LOSS_SECONDS = 12  # how long a node may be silent


def pod(name, script, gpus=0, node=None, labels=None, **spec):
    container = {"name": "main", "image": BASE, "command": ["sh", "-c", script]}
    if gpus:
        container["resources"] = {"limits": {GPU: str(gpus)}}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [container], "restartPolicy": "Never",
                 "terminationGracePeriodSeconds": 1, **spec},
    }


class ClusterTest(ClusterCase):
    options = {"nodes": 2, "gpus": 8, "crds": [], "node_grace": LOSS_SECONDS}

    def test_runs_a_pod_to_its_end(self):
        namespace = self.make_namespace()
        self.admin.create(pod("ends", "echo said; echo last > /dev/termination-log; exit 3"),
                          namespace)
        ended = self.wait_phase("ends", namespace, "Failed")
        state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
        self.assertEqual((state["exitCode"], state["message"]), (3, "last\n"))
        self.assertEqual(self.plane.kubectl("logs", "-n", namespace, "ends"), "said\n")

    def test_gives_every_device_once_and_keeps_a_record(self):
        namespace = self.make_namespace()
        before = {node.name: len(node.allocations()) for node in self.cluster.nodes}
        for index in range(4):
            script = "echo $NVIDIA_VISIBLE_DEVICES; sleep 1000"
            self.admin.create(pod(f"holds-{index}", script, gpus=4), namespace)
        given = []
        for index in range(4):
            name = f"holds-{index}"
            running = self.wait_phase(name, namespace, "Running")
            node = self.node_of(running)
            devices = node.devices_of(running)
            self.assertEqual(len(devices), 4)
            self.assertIn(devices, [sorted(each) for each in node.allocations()])
            said = wait_for(lambda name=name: self.plane.kubectl("logs", "-n", namespace, name),
                            10, "the pod's output")
            self.assertEqual(sorted(said.strip().split(",")), devices)
            given += devices
        self.assertEqual(len(set(given)), 16)
        made = sum(len(node.allocations()) - before[node.name] for node in self.cluster.nodes)
        self.assertEqual(made, 4)
        self.remove_pods(namespace)

    def test_a_device_can_be_unhealthy_and_an_allocation_refused(self):
        namespace = self.make_namespace()
        node = self.cluster.nodes[0]

        def allocatable():
            return self.admin.get("Node", node.name)["status"]["allocatable"][GPU]

        node.set_gpu_healthy(3, False)
        self.addCleanup(node.set_gpu_healthy, 3, True)
        wait_for(lambda: allocatable() == "7", 30, "one device less")
        node.refuse_allocations()
        self.addCleanup(node.refuse_allocations, False)
        self.admin.create(pod("refused", "true", gpus=1, node=node.name), namespace)
        refused = self.wait_phase("refused", namespace, "Failed")
        self.assertEqual(refused["status"]["reason"], "UnexpectedAdmissionError")
        node.set_gpu_healthy(3, True)
        wait_for(lambda: allocatable() == "8", 30, "all devices")

    def test_names_of_a_headless_service_lead_across_nodes(self):
        namespace = self.make_namespace()
        self.admin.create({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "job"},
            "spec": {"clusterIP": "None", "selector": {"app": "job"},
                     "publishNotReadyAddresses": True},
        }, namespace)
        serve = "while echo hello | nc -l -p 2222; do true; done"
        self.admin.create(pod("there", serve, node="node2", labels={"app": "job"},
                              hostname="worker-0", subdomain="job"), namespace)
        ask = f"until nc worker-0.job.{namespace}.svc 2222 < /dev/null; do sleep 0.1; done"
        self.admin.create(pod("here", ask, node="node1"), namespace)
        self.wait_phase("here", namespace, "Succeeded")
        self.assertEqual(self.plane.kubectl("logs", "-n", namespace, "here").split()[-1], "hello")
        self.remove_pods(namespace)

    def test_pods_reach_the_api_with_their_account(self):
        namespace = self.make_namespace()
        ask = ("cat /var/run/secrets/kubernetes.io/serviceaccount/namespace;"
               " echo; nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT < /dev/null")
        self.admin.create(pod("asks", ask), namespace)
        self.wait_phase("asks", namespace, "Succeeded")
        said = self.plane.kubectl("logs", "-n", namespace, "asks")
        self.assertEqual(said.strip(), namespace)

    def test_a_killed_container_is_seen_as_killed(self):
        namespace = self.make_namespace()
        self.admin.create(pod("victim", "sleep 1000"), namespace)
        running = self.wait_phase("victim", namespace, "Running")
        os.kill(self.node_of(running).container_pid(running), 9)
        failed = self.wait_phase("victim", namespace, "Failed")
        state = failed["status"]["containerStatuses"][0]["state"]["terminated"]
        self.assertEqual(state["exitCode"], 137)

    def test_a_node_crashes_at_one_stroke_and_comes_back(self):
        namespace = self.make_namespace()
        node = self.cluster.nodes[1]
        self.admin.create(pod("aboard", "sleep 1000", node=node.name), namespace)
        running = self.wait_phase("aboard", namespace, "Running")
        inside = pathlib.Path(f"/proc/{node.container_pid(running)}")
        node.crash()
        wait_for(lambda: not inside.exists(), 5, "the container to be gone")

        def is_lost():
            return not is_ready(self.admin.get("Node", node.name))

        wait_for(is_lost, LOSS_SECONDS + 20, "Kubernetes to notice")
        self.assertEqual(self.phase_of("aboard", namespace), "Running")  # nobody can tell
        self.admin.delete("Pod", "aboard", namespace, gracePeriodSeconds=1)
        node.start()
        self.cluster.wait_ready(node)
        wait_for(lambda: not self.phase_of("aboard", namespace), 30, "the dead pod to go")

    def node_of(self, found):
        names = {node.name: node for node in self.cluster.nodes}
        return names[found["spec"]["nodeName"]]

    def remove_pods(self, namespace):
        self.admin.delete_all("Pod", namespace, gracePeriodSeconds=1)
        wait_for(lambda: not self.admin.list("Pod", namespace), 60, "all pods to go")


class LeavesNothingTest(unittest.TestCase):
    def setUp(self):
        require_cluster()
        with wait_for_turn():
            remove_leftovers(Cluster.BRIDGE)

    def test_removes_what_a_killed_run_left(self):
        with wait_for_turn():
            before = traces()
            ip("link", "add", Cluster.BRIDGE, "type", "bridge")
            ip("link", "set", Cluster.BRIDGE, "alias", ALIAS)
            (CGROUPS / "memory" / "lockstep-node1" / "pod").mkdir(parents=True)
            self.assertNotEqual(traces(), before)
            remove_leftovers(Cluster.BRIDGE)
            self.assertEqual(traces(), before)

    def test_does_not_touch_a_bridge_of_somebody_else(self):
        with wait_for_turn():
            ip("link", "add", Cluster.BRIDGE, "type", "bridge")
            self.addCleanup(ip, "link", "delete", Cluster.BRIDGE)
            with self.assertRaisesRegex(AssertionError, "not ours"):
                remove_leftovers(Cluster.BRIDGE)

    def test_takes_everything_away(self):
        before = traces()
        with Cluster(nodes=1, gpus=1, crds=[]) as cluster:
            self.assertNotEqual(traces(), before)
            cluster.plane.admin.create(pod("aboard", "sleep 1000"))
            wait_for(lambda: cluster.plane.admin.get("Pod", "aboard")["status"]["phase"]
                     == "Running", 60, "a pod to run")
            folder = cluster.folder
        self.assertFalse(folder.exists())
        after = wait_for(lambda: traces() if traces() == before else None, 10, "no difference")
        self.assertEqual(after, before)


def traces():
    """Everything that a cluster is known to leave on a machine when nobody takes care."""
    places = ("/etc/cni", "/etc/cni/net.d", "/var/lib/cni", "/var/lib/kubelet",
              "/var/lib/containerd", "/var/log/pods", "/var/log/containers", "/opt/containerd",
              "/opt/cni", "/run/containerd", "/run/runc", "/usr/libexec/kubernetes")
    tunables = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops",
                "net/ipv4/ip_forward")
    links = [link["ifname"] for link in json.loads(ip("-json", "link", "show"))]
    mounts = pathlib.Path("/proc/mounts").read_text().splitlines()
    return {
        "links": [name for name in links if name.startswith(("lsbr", "lsve", "cni", "veth"))],
        "cgroups": sorted(map(str, CGROUPS.glob("*/lockstep-*"))),
        "mounts": [line for line in mounts if "cluster-" in line or "kubelet" in line],
        "places": {place: os.listdir(place) for place in places if os.path.isdir(place)},
        "tunables": {name: pathlib.Path("/proc/sys", name).read_text() for name in tunables},
    }


if __name__ == "__main__":
    main()
