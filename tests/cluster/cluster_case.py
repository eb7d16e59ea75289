"""The base of tests on real nodes: one cluster for all tests of a class."""

import unittest

import cluster as _cluster  # also lets us import from tests/kubernetes
from capabilities import missing_capabilities
from kubernetes_case import KubernetesCase, main
from tools import require_tools

__all__ = ["ClusterCase", "main", "require_cluster"]


def require_cluster():
    """Probe: skips the calling test where this machine cannot have real nodes."""
    missing = missing_capabilities()
    if missing:
        raise unittest.SkipTest(f"this machine has no {', no '.join(missing)}")
    require_tools(*_cluster.CLUSTER_TOOLS)


class ClusterCase(KubernetesCase):
    """A class names the options of its cluster, and may start more in start_more()."""

    options = {}

    @classmethod
    def setUpClass(cls):
        require_cluster()
        cls.cluster = _cluster.Cluster(**cls.options)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        cls.plane = cls.cluster.plane
        cls.admin = cls.plane.admin
        cls.start_more()

    def phase_of(self, name, namespace):
        found = self.admin.find("Pod", name, namespace)
        return found["status"]["phase"] if found else None

    def wait_phase(self, name, namespace, phase, seconds=60):
        """Waits for that phase and returns the pod."""
        self.wait_for(
            lambda: self.phase_of(name, namespace) == phase, seconds,
            f"pod {name} to be {phase}; it is {self.phase_of(name, namespace)}",
        )
        return self.admin.get("Pod", name, namespace)
