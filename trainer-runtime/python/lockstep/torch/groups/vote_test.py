"""The vote on a step."""

import math
import unittest

import torch

from lockstep.torch.groups.vote import _bits_of, _number_of, are_finite


class Finite(unittest.TestCase):
    def test_large_numbers_are(self):
        self.assertTrue(are_finite([]))
        self.assertTrue(are_finite([torch.full((9,), 60000.0, dtype=torch.float16),
                                    torch.full((9,), 1e38), torch.ones(2, dtype=torch.float64)]))

    def test_nan_and_infinities_are_not(self):
        for bad in (math.nan, math.inf, -math.inf):
            self.assertFalse(are_finite([torch.ones(3), torch.tensor([0.0, bad])]))


class Loss(unittest.TestCase):
    def test_a_loss_keeps_its_bits(self):
        for loss in (0.1, -1e300, math.inf, 5e-324):
            self.assertEqual(_number_of(_bits_of(loss)), loss)
        self.assertTrue(math.isnan(_number_of(_bits_of(math.nan))))


if __name__ == "__main__":
    unittest.main()
