"""The vote on a step."""

import math
import unittest
import unittest.mock

import torch

from lockstep.errors import MeetAgain, Status
from lockstep.fake_exchange import FakeExchange, in_threads, where_nobody_fails
from lockstep.torch.gradients import StepShare
from lockstep.torch.groups.vote import StepVote, _bits_of, _number_of, are_finite
from lockstep.torch.holdings import Holdings
from lockstep.torch.job_test import FakeSession


class Finite(unittest.TestCase):
    def test_large_numbers_are(self):
        self.assertTrue(are_finite([]))
        self.assertTrue(are_finite([torch.full((9,), 60000.0, dtype=torch.float16),
                                    torch.full((9,), 1e38), torch.ones(2, dtype=torch.float64)]))

    def test_nan_and_infinities_are_not(self):
        for bad in (math.nan, math.inf, -math.inf):
            self.assertFalse(are_finite([torch.ones(3), torch.tensor([0.0, bad])]))


class Vote(unittest.TestCase):
    def test_all_ranks_hear_what_all_have_used(self):
        exchange = FakeExchange(2, torch.stack)

        def vote(rank):
            model = torch.nn.Linear(2, 1)
            model(torch.ones(3, 2)).sum().backward()
            session = FakeSession(exchange, rank)
            session.size = 2
            reducer = StepVote(Holdings(model, torch.optim.SGD(model.parameters(), lr=0.1), None,
                                        None))
            share = StepShare([rank, rank + 2], 4, float(rank), unseen_count=rank)
            return reducer.reduce(session, share, 5.0)

        for total in where_nobody_fails(in_threads(2, vote)):
            self.assertEqual((total.ids.tolist(), total.loss, total.unseen_count, total.is_finite),
                             ([0, 2, 1, 3], 0.5, 1, True))

    def test_a_rank_that_loses_the_vote_knows_whether_any_grad_scaler_has_found_infinities(self):
        exchange = FakeExchange(2, torch.stack)

        def vote(rank):
            model = torch.nn.Linear(2, 1)
            model(torch.ones(3, 2)).sum().backward()
            session = FakeSession(exchange, rank)
            session.size = 2
            reducer = StepVote(Holdings(model, torch.optim.SGD(model.parameters(), lr=0.1), None,
                                        None))
            reducer.found_inf = rank == 1
            reducer._agree = unittest.mock.Mock(side_effect=MeetAgain("lost", Status.LOST_PEER))
            with self.assertRaises(MeetAgain):
                reducer.reduce(session, StepShare([rank], 2, 0.0), 5.0)
            return reducer.found_inf

        self.assertEqual(where_nobody_fails(in_threads(2, vote)), [True, True])


class Loss(unittest.TestCase):
    def test_a_loss_keeps_its_bits(self):
        for loss in (0.1, -1e300, math.inf, 5e-324):
            self.assertEqual(_number_of(_bits_of(loss)), loss)
        self.assertTrue(math.isnan(_number_of(_bits_of(math.nan))))


if __name__ == "__main__":
    unittest.main()
