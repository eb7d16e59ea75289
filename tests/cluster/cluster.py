"""A cluster of real nodes on one machine: containers, devices, names and crashes are real.

    with Cluster(nodes=2, gpus=8) as cluster:
        cluster.import_image("runtime.tar")
        cluster.plane.kubectl("apply", "-f", "job.yaml")
        cluster.nodes[0].crash()

By hand: python3 tests/cluster/cluster.py [NODES] brings one up and prints how to reach it.

Needs root. Ready in about 6 s on two cores. One cluster at a time: others wait for their turn.
It consists of a control plane (see tests/kubernetes), a bridge, cluster DNS, and nodes whose
processes, mounts and network live in namespaces of their own (see node.py)."""

import atexit
import concurrent.futures
import ipaddress
import json
import pathlib
import shutil
import signal
import socket
import sys
import tempfile
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kubernetes"))

from control_plane import CONTROL_PLANE_TOOLS, SERVICE_RANGE, ControlPlane  # noqa: E402
from hollow_nodes import GPU, is_ready  # noqa: E402
from images import BASE, make_base_image  # noqa: E402
from node import CGROUP_PREFIX, UPLINK_PREFIX, Node, ip, remove_cgroups  # noqa: E402
from processes import wait_for  # noqa: E402
from tools import tool  # noqa: E402

CLUSTER_TOOLS = (*CONTROL_PLANE_TOOLS, "kubelet", "gpu-plugin", "coredns")
DNS_READY_PORT = 8181
TURN_SECONDS = 1800  # choice: longer than any test holds a cluster
ALIAS = "lockstep test cluster"  # a bridge with this alias is ours

_DNS = """\
.:53 {{
    bind {gateway}
    errors
    ready {local}:{port}
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 1
    }}
}}
"""


class Cluster:
    """`plane` is its control plane, `nodes` its nodes. Options of the control plane go through;
    nodes that are silent for `node_grace` seconds count as lost."""

    BRIDGE = "lsbr0"
    NETWORK = "10.77"  # pods of node n have addresses 10.77.n.x
    GATEWAY = "10.77.0.1"
    # A bridge without an address of its own has the lowest of its ports', so that it would change
    # with a node that goes, and the others would send to nobody until they have asked again.
    HARDWARE_ADDRESS = "02:4c:53:00:00:01"
    PAUSE = BASE

    def __init__(self, nodes=2, gpus=8, node_grace=12, **plane_options):
        names = [f"node{number}" for number in range(1, nodes + 1)]
        # The address of the service "kubernetes": pods reach the API without kube-proxy.
        self._api_address = str(ipaddress.ip_network(SERVICE_RANGE)[1])
        self.plane = ControlPlane(
            address=(self._api_address, 443), nodes=names, node_grace=node_grace, **plane_options
        )
        self._node_count, self._gpus = nodes, gpus
        self.nodes = []
        self.folder = None
        self._turn = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        atexit.register(self.stop)
        try:
            self._turn = wait_for_turn()
            remove_leftovers(self.BRIDGE)
            self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cluster-"))
            self._make_bridge()
            self.plane.start()
            self._start_dns()
            archive = self.folder / "base.tar"
            make_base_image(archive)
            for number in range(1, self._node_count + 1):
                self.nodes.append(Node(self, number, self._gpus))
                self.nodes[-1].start()
            for node in self.nodes:
                node.wait_containerd()
            self.import_image(archive)
            self.wait_ready(*self.nodes)
        except BaseException:
            self.stop()
            raise

    def stop(self):
        """Takes everything away again. More than once is no mistake."""
        if self._turn is None:
            return
        for node in self.nodes:
            node.stop()
        self.plane.stop()
        ip("link", "delete", self.BRIDGE, check=False)
        if self.folder is not None:
            shutil.rmtree(self.folder)
        self._turn.close()
        self._turn = None
        atexit.unregister(self.stop)

    def import_image(self, archive):
        """Makes the images of a docker or OCI archive known to every node."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: node.import_image(archive), self.nodes))

    def wait_ready(self, *nodes, seconds=60):
        """Waits until Kubernetes calls the nodes ready and knows of their devices."""

        def ready():
            known = {each["metadata"]["name"]: each for each in self.plane.admin.list("Node")}
            return all(_is_usable(known.get(node.name), self._gpus) for node in nodes)

        try:
            wait_for(ready, seconds, "all nodes to be ready")
        except AssertionError as failure:
            logs = "\n".join(node.logs() for node in nodes)
            raise AssertionError(f"{failure}\n{logs}") from None

    def _make_bridge(self):
        for address in (self.GATEWAY, self._api_address):
            route = ip("route", "show", "to", "match", address, "table", "all").splitlines()
            if [line for line in route if not line.startswith("default")]:
                raise AssertionError(f"this machine uses the network of {address}: {route}")
        ip("link", "add", self.BRIDGE, "address", self.HARDWARE_ADDRESS, "type", "bridge")
        ip("link", "set", self.BRIDGE, "alias", ALIAS)
        ip("address", "add", f"{self.GATEWAY}/16", "dev", self.BRIDGE)
        ip("address", "add", f"{self._api_address}/32", "dev", self.BRIDGE)
        ip("link", "set", self.BRIDGE, "up")

    def _start_dns(self):
        local = self.plane.local_address
        configuration = self.folder / "Corefile"
        configuration.write_text(_DNS.format(
            gateway=self.GATEWAY, local=local, port=DNS_READY_PORT,
            kubeconfig=self.plane.kubeconfig(),
        ))
        dns = self.plane.run("coredns", tool("coredns"), "-conf", configuration)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def answers():
            try:
                with opener.open(f"http://{local}:{DNS_READY_PORT}/ready", timeout=5):
                    return True
            except OSError:
                return False

        dns.wait_ready(answers)


def _is_usable(node, gpus):
    if node is None or not is_ready(node):
        return False
    return int(node["status"]["allocatable"].get(GPU, 0)) == gpus


def wait_for_turn():
    """A name that one process of this machine can hold; free again however that process ends."""
    turn = socket.socket(socket.AF_UNIX)

    def taken():
        try:
            turn.bind("\0lockstep-test-cluster")
            return True
        except OSError:
            return False

    wait_for(taken, TURN_SECONDS, "the other test cluster on this machine to end")
    return turn


def remove_leftovers(bridge):
    """Takes away what a killed run could not; its processes died with it."""
    links = json.loads(ip("-json", "link", "show") or "[]")
    for link in links:
        if link["ifname"] == bridge:
            if link.get("ifalias") != ALIAS:
                raise AssertionError(f"there is a link {bridge} here, and it is not ours")
            ip("link", "delete", bridge)
        elif link["ifname"].startswith(UPLINK_PREFIX):
            # The network of a dead node lasts until its last connection has timed out.
            ip("link", "delete", link["ifname"], check=False)
    remove_cgroups(f"{CGROUP_PREFIX}node*")


def _main():
    """Runs a cluster for people, until it is interrupted."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with Cluster(nodes=nodes) as cluster:
        print(f"export KUBECONFIG={cluster.plane.kubeconfig()} PATH={tool('kubectl').parent}:$PATH")
        try:
            signal.pause()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    _main()
