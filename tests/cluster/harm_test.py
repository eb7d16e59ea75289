"""Rarer harms to the product and rarer strategies, on a cluster of their own: scripts/test.sh
--cluster runs them."""

import unittest

from product import ProductCase  # noqa: F401 (lets the others find their modules)
from kubernetes_case import main  # noqa: E402 (found through the line above)

MODULES = ("edit_case", "admission_case", "drain_case", "stranger_case",
           "parameter_server_case")


def load_tests(loader, _, pattern):
    return unittest.TestSuite(loader.loadTestsFromName(name) for name in MODULES)


if __name__ == "__main__":
    main()
