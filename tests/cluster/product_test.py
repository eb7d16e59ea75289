"""The product as its users get it, on one cluster. See product.py; harm_test.py has what users
meet less often."""

import unittest

from product import ProductCase  # noqa: F401 (lets the others find their modules)
from kubernetes_case import main  # noqa: E402 (found through the line above)

MODULES = ("example_case", "recovery_case", "processes_case", "device_case", "monitoring_case",
           "security_case", "release_case", "node_crash_case", "command_case", "outage_case")


def load_tests(loader, _, pattern):
    return unittest.TestSuite(loader.loadTestsFromName(name) for name in MODULES)


if __name__ == "__main__":
    main()
