"""The product as its users get it: images from docker/, installed by the chart on real nodes.

One cluster, with everything installed, serves all tests of the process. product_test.py runs them;
any of their modules runs by itself as well: python3 -B tests/cluster/example_case.py -v"""

import functools
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "helm"))

from cluster import Cluster  # also lets us import from tests/kubernetes
from cluster_case import require_cluster
from helm import CHART, helm  # noqa: E402 (found through the line above)
from images import BASE, USER, make_user_image
from jobs import is_running, training_job
from operator_process import NAMESPACE, TRANSPORT
from processes import wait_for
from tools import BIN, REPOSITORY, require_tools
from training import Training

ARCHIVES = BIN.parent / "images"
IMAGES = ("operator", "runtime")
NODE_GRACE = 12  # seconds after which Kubernetes calls a silent node lost
UNFORGIVING = {"backoffLimit": 0}
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


class Product:
    """A cluster of two nodes with four GPUs each, and a release of the chart in it."""

    def __init__(self):
        build = [REPOSITORY / "docker" / "build.sh", "--preset", "dev", "--archive", ARCHIVES]
        subprocess.run([*build, *IMAGES], check=True)
        self.cluster = Cluster(nodes=2, gpus=4, node_grace=NODE_GRACE)
        self.cluster.start()  # ends with the process
        self.plane, self.admin = self.cluster.plane, self.cluster.plane.admin
        for name in IMAGES:
            self.cluster.import_image(ARCHIVES / f"{name}.tar")
        self.make_namespace(NAMESPACE)
        self.install()

    def make_namespace(self, name, labels=None):
        """A namespace that enforces the level "restricted", unless it has other labels."""
        metadata = {"name": name, "labels": RESTRICTED if labels is None else labels}
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        wait_for(lambda: self.admin.find("ServiceAccount", "default", name), 30, "an account")

    def install(self):
        # The definition is there already: the garbage collector takes up to 40 s to notice one that
        # comes after it.
        self.helm("install", "lockstep", CHART, "--take-ownership", "--wait",
                  "--set", f"transport={TRANSPORT}")

    def helm(self, *arguments):
        home = self.cluster.folder / "helm"
        code, output, errors = helm(
            home, *arguments, "--namespace", NAMESPACE, kubeconfig=self.plane.kubeconfig())
        if code != 0:
            raise AssertionError(f"helm {arguments[0]}: {errors}\n{self.operator_log()}")
        return output

    def operator_pod(self):
        """The one that runs and is ready; None while there is none."""
        for pod in self.admin.list("Pod", NAMESPACE):
            conditions = pod["status"].get("conditions", [])
            if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
                return pod
        return None

    def operator_log(self, lines=40):
        return self.plane.kubectl("logs", "-n", NAMESPACE, "deployment/lockstep",
                                  f"--tail={lines}", check=False)[1]

    @functools.cached_property
    def user_image(self):
        """The name of an image of a user's own, which every node has from now on."""
        archive = self.cluster.folder / "user.tar"
        make_user_image(archive, BIN / "lockstep-runtime")
        self.cluster.import_image(archive)
        return USER

    def home_and_away(self):
        """The node of the operator, and the other one."""
        home = self.node_of(self.operator_pod())
        (away,) = [node for node in self.cluster.nodes if node is not home]
        return home, away

    def node_of(self, pod):
        return {node.name: node for node in self.cluster.nodes}[pod["spec"]["nodeName"]]

    def kill_container(self, pod):
        """SIGKILL to its main process, as the kernel's out-of-memory killer would, once its kubelet
        has told of it: what runs there may show itself sooner."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]

        def told():
            found = self.admin.get("Pod", name, namespace)
            statuses = found["status"].get("containerStatuses", [])
            return found if statuses and all("containerID" in one for one in statuses) else None

        self.node_of(pod).kill_container(wait_for(told, 30, f"{name}'s container to be told of"))


@functools.cache
def product():
    return Product()


class ProductCase(unittest.TestCase):
    """Every test has a namespace, `restricted`, whose jobs end with it."""

    @classmethod
    def setUpClass(cls):
        require_tools("helm")
        require_cluster()
        cls.product = product()
        cls.cluster, cls.plane = cls.product.cluster, cls.product.plane
        cls.admin = cls.product.admin

    def setUp(self):
        self.namespace = self._testMethodName.replace("_", "-")[:63].strip("-")
        self.product.make_namespace(self.namespace)
        self.addCleanup(self.remove_jobs)

    def remove_jobs(self):
        """Gives the room back to the next test."""
        for kind in ("TrainingJob", "Pod"):
            self.admin.delete_all(kind, self.namespace, gracePeriodSeconds=1)
        wait_for(lambda: not self.admin.list("Pod", self.namespace), 90, "the pods to go")

    def train(self, name="mnist", **changes):
        """Applies examples/mnist.yaml, with changes to its spec.training."""
        return Training(self.product, self.namespace, name).start(**changes)

    def start_command(self, name, workers, container=None, supervise=False, grace=1, **spec):
        """A job whose program sleeps, unless `container` says otherwise. No incident is forgiven:
        it fails with the first that counts."""
        program = {"image": BASE, "command": ["sleep", "1000"],
                   "securityContext": {"runAsUser": 65532}, **(container or {})}
        pod_spec = {"container": program, "terminationGracePeriodSeconds": grace}
        job = training_job(name, workers, pod_spec=pod_spec,
                           **{"gpus": 0, "runPolicy": UNFORGIVING, **spec})
        job["spec"]["roles"][0]["supervise"] = supervise
        self.admin.create(job, self.namespace)
        return Training(self.product, self.namespace, name)

    def all_run(self, training):
        size = sum(role["replicas"] for role in training.job()["spec"]["roles"])
        pods = training.pods().values()
        return len(pods) == size and all(map(is_running, pods))

    def nodes_of(self, training):
        return {pod["spec"]["nodeName"] for pod in training.pods().values()}

    def incidents(self, training):
        """Those that cost the job's budget."""
        return [each for each in training.job()["status"].get("incidents", [])
                if not each.get("free")]

    def set_schedulable(self, node, wish):
        self.plane.kubectl("uncordon" if wish else "cordon", node.name)

    def leave_cpu(self, node, amount):
        """Takes all of a node's CPU but so many thousandths of a core; returns the pod's name."""
        name = f"ballast-{node.name}"
        on_node = self.admin.list("Pod", None, fields=f"spec.nodeName={node.name}")
        held = sum(_millicores(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
                   for pod in on_node for container in pod["spec"]["containers"])
        allocatable = self.admin.get("Node", node.name)["status"]["allocatable"]["cpu"]
        ballast = _millicores(allocatable) - held - amount
        security = {"runAsNonRoot": True, "runAsUser": 65532, "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}
        self.admin.create({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": node.name},
                "containers": [{"name": "main", "image": BASE, "command": ["sleep", "1000"],
                                "resources": {"requests": {"cpu": f"{ballast}m"}},
                                "securityContext": security}],
            },
        }, self.namespace)
        wait_for(lambda: is_running(self.admin.get("Pod", name, self.namespace)), 30, "the ballast")
        return name


def _millicores(quantity):
    if quantity.endswith("m"):
        return int(quantity[:-1])
    return int(float(quantity) * 1000)
