"""The base of tests on a control plane: a namespace for each test, and one control plane for all
classes in turn whose options are equal."""

import signal
import unittest

from control_plane import CONTROL_PLANE_TOOLS, ControlPlane
from processes import wait_for
from tools import require_tools


class _Shared:
    """The control plane of the last class: it costs 6 s of a core to start."""

    plane, options, state = None, None, None

    @classmethod
    def get(cls, options):
        """A control plane with these options, in the state in which one starts."""
        if cls.plane is not None:
            if cls.plane.is_up and cls.options == options:
                cls.plane.reset(cls.state)
                return cls.plane
            cls.plane.stop()
        cls.plane, cls.options = ControlPlane(**options), None
        cls.plane.start()  # ends with the process
        cls.state, cls.options = cls.plane.state(), options
        return cls.plane


class KubernetesCase(unittest.TestCase):
    """A class names the options of its control plane, and may start more in start_more(). What that
    starts and creates is taken away before the next class."""

    options = {}
    changes_plane = False  # whether no other class may follow on the control plane itself
    tools = CONTROL_PLANE_TOOLS
    requirements = ()  # functions that skip the class where something it needs is missing

    @classmethod
    def setUpClass(cls):
        for require in cls.requirements:
            require()
        require_tools(*cls.tools)
        cls.plane = _Shared.get(cls.options)
        if cls.changes_plane:
            cls.addClassCleanup(cls.plane.stop)
        cls.admin = cls.plane.admin
        cls.start_more()

    @classmethod
    def start_more(cls):
        """What the class's tests need besides the control plane; ends with addClassCleanup."""

    def make_namespace(self):
        """A namespace of this test. It stays until the control plane ends, without what ran in it:
        to delete one costs more than a test."""
        name = self._testMethodName.replace("_", "-").lower()[:63].strip("-")
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.wait_for(
            lambda: self.admin.find("ServiceAccount", "default", name), 30, "a service account"
        )
        return name

    def wait_for(self, condition, seconds, what):
        return wait_for(condition, seconds, what)


def main(module="__main__"):
    """Runs the tests of the calling script, or with None of the modules that are its arguments. A
    polite end (SIGTERM) cleans up as well: the tests stop at once, as KeyboardInterrupt is the one
    exception that unittest lets through."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    unittest.main(module=module)
