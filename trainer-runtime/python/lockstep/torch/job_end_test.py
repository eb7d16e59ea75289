"""Ends of a job that are no success, whatever the program makes of them."""

import contextlib
import math
import unittest
import unittest.mock

import torch

from lockstep import exits
from lockstep.errors import Diverged, Inexact, LockstepError
from lockstep.torch import job
from lockstep.torch.job import Job
from lockstep.torch.job_test import FakeSession
from lockstep.torch.sampler import Sampler


class End(unittest.TestCase):
    def setUp(self):
        unittest.mock.patch.object(exits, "call_at_exit").start()
        self.addCleanup(unittest.mock.patch.stopall)
        job._has_finished = False
        self.session = FakeSession()
        model = torch.nn.Linear(1, 1)
        with unittest.mock.patch.object(job, "open", lambda plan, catches_stop: self.session):
            self.made = Job(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                            sampler=Sampler(8, 4, epochs=3))

    def train(self, spoils_step=None):
        """By a program that leaves bad batches out."""
        made = self.made
        data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1))
        with made:
            for (inputs,) in made.batches(
                    torch.utils.data.DataLoader(data, batch_sampler=made.sampler)):
                loss = made.model(inputs).square().mean()
                loss.backward()
                with contextlib.suppress(LockstepError):
                    made.step(loss * (math.nan if made.step_count + 1 == spoils_step else 1))

    def test_a_program_that_catches_what_ends_the_job_gets_no_further_batch(self):
        with self.assertRaisesRegex(Diverged, "the loss of step 3 is NaN") as end:
            self.train(spoils_step=3)
        self.assertEqual((self.made.step_count, end.exception.exit_code), (2, 79))
        with self.assertRaisesRegex(Diverged, "step 3 is NaN"):
            self.made.step(0.0)

    def test_an_end_that_the_program_catches_within_the_job_is_not_called_finished(self):
        made = self.made
        data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1))
        with made, contextlib.suppress(Diverged):
            for (inputs,) in made.batches(
                    torch.utils.data.DataLoader(data, batch_sampler=made.sampler)):
                made.model(inputs).sum().backward()
                made.step(math.nan)
        self.assertEqual(self.session.finish_timeouts, [])

    def test_samples_that_were_lost_or_repeated_are_no_success(self):
        self.made.sampler.advance(torch.tensor([0, 0, 1, 2]))  # as a damaged ledger has it
        with self.assertRaisesRegex(Inexact, "lost, [1-9]") as end:
            self.train()
        self.assertEqual((end.exception.exit_code, self.session.finish_timeouts), (80, []))


    def test_an_update_that_has_failed_halfway_is_not_kept(self):
        made = self.made
        data = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1)),
            batch_sampler=made.sampler)
        for count, (inputs,) in enumerate(made.batches(data)):
            made.model(inputs).square().mean().backward()
            if count == 1:
                break
            made.step()
        with self.assertRaises(ZeroDivisionError):
            made.step(before_update=lambda: 1 // 0)
        made.close()
        self.assertEqual(self.session.finish_timeouts, [])


if __name__ == "__main__":
    unittest.main()
