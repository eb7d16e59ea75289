"""lockstep.torch.groups on a torch that is too old for it."""

import importlib
import unittest

import torch

from lockstep.errors import InvalidArgument


def can_make_backends():
    try:
        torch._C._distributed_c10d.Backend(0, 1)
    except (AttributeError, TypeError):
        return False
    return True


class Torch(unittest.TestCase):
    @unittest.skipIf(can_make_backends(), "this torch is new enough")
    def test_one_without_backends_of_python_is_refused_by_its_release(self):
        with self.assertRaises(InvalidArgument) as caught:
            importlib.import_module("lockstep.torch.groups")
        self.assertIn("needs torch 2.15", str(caught.exception))
        self.assertIn(f"found {torch.__version__}", str(caught.exception))
        self.assertIn("use the backend lockstep", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
