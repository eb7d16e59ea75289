"""What a process is refused for before its groups are made."""

import os
import unittest
from unittest import mock

import torch

from lockstep.errors import InvalidArgument

from lockstep.torch.groups import install


class Settings(unittest.TestCase):
    def refusal(self, **variables):
        with mock.patch.dict(os.environ, variables), self.assertRaises(InvalidArgument) as caught:
            install.check_settings()
        return str(caught.exception)

    def test_the_older_nccl_is_refused(self):
        self.assertIn("TORCH_DIST_USE_NCCL2: 0 found", self.refusal(TORCH_DIST_USE_NCCL2="0"))

    def test_torchs_wrapper_of_groups_is_refused(self):
        self.assertIn("TORCH_DISTRIBUTED_DEBUG: DETAIL found",
                      self.refusal(TORCH_DISTRIBUTED_DEBUG="detail"))

    def test_other_values_are_not(self):
        with mock.patch.dict(os.environ, TORCH_DISTRIBUTED_DEBUG="INFO", TORCH_DIST_USE_NCCL2="1"):
            install.check_settings()


class Backends(unittest.TestCase):
    def test_those_that_cannot_be_formed_anew_are_refused_by_name(self):
        plugins = torch.distributed.Backend._plugins
        for name in ("nccl-legacy", "nccl-lazy", "nccl2", "ucc", "mpi", "xccl"):
            with self.assertRaisesRegex(InvalidArgument, f"backend: {name} found"):
                plugins[name.upper()].creator_fn(None, None)

    def test_gloo_is_of_no_type_that_torch_casts_without_a_look(self):
        kinds = torch.distributed.Backend.backend_type_map
        self.assertEqual(kinds["gloo"], torch.distributed.ProcessGroup.BackendType.CUSTOM)


if __name__ == "__main__":
    unittest.main()
