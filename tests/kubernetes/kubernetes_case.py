"""The base of tests on a control plane: one for all tests of a class, a namespace for each test."""

import signal
import unittest

from control_plane import CONTROL_PLANE_TOOLS, ControlPlane
from processes import wait_for
from tools import require_tools


class KubernetesCase(unittest.TestCase):
    """A class names the options of its control plane, and may start more in start_more()."""

    options = {}
    tools = CONTROL_PLANE_TOOLS
    requirements = ()  # functions that skip the class where something it needs is missing

    @classmethod
    def setUpClass(cls):
        for require in cls.requirements:
            require()
        require_tools(*cls.tools)
        cls.plane = ControlPlane(**cls.options)
        cls.addClassCleanup(cls.plane.stop)
        cls.plane.start()
        cls.admin = cls.plane.admin
        cls.start_more()

    @classmethod
    def start_more(cls):
        """What the class's tests need besides the control plane; ends with addClassCleanup."""

    def make_namespace(self):
        """A namespace of this test; it stays until the control plane ends, as nobody minds."""
        name = self._testMethodName.replace("_", "-").lower()[:63].strip("-")
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.wait_for(
            lambda: self.admin.find("ServiceAccount", "default", name), 30, "a service account"
        )
        return name

    def wait_for(self, condition, seconds, what):
        return wait_for(condition, seconds, what)


def main():
    """Runs the tests of the calling script. A polite end (SIGTERM) cleans up as well: the tests
    stop at once, as KeyboardInterrupt is the one exception that unittest lets through."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    unittest.main()
