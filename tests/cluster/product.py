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
from operator_process import NAMESPACE, TRANSPORT
from processes import wait_for
from tools import BIN, REPOSITORY, require_tools
from training import Training

ARCHIVES = BIN.parent / "images"
IMAGES = ("operator", "runtime")
NODE_GRACE = 12  # seconds after which Kubernetes calls a silent node lost
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

    def make_namespace(self, name):
        """A namespace that enforces the level "restricted"."""
        metadata = {"name": name, "labels": RESTRICTED}
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

    def node_of(self, pod):
        return {node.name: node for node in self.cluster.nodes}[pod["spec"]["nodeName"]]

    def kill_container(self, pod):
        """SIGKILL to its main process, as the kernel's out-of-memory killer would."""
        self.node_of(pod).kill_container(pod)


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

    def train(self, **changes):
        """Applies examples/mnist.yaml, with changes to its spec.training."""
        return Training(self.product, self.namespace).start(**changes)
