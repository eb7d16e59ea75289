"""Ends of a job that are no success, whatever the program makes of them."""

import contextlib
import io
import math
import unittest
import unittest.mock

import torch

from lockstep import errors, exits
from lockstep.errors import Diverged, Inexact, InvalidArgument, LockstepError
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

    def batches(self):
        data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1))
        loader = torch.utils.data.DataLoader(data, batch_sampler=self.made.sampler)
        for (inputs,) in self.made.batches(loader):
            self.made.model(inputs).square().mean().backward()
            yield inputs

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


    def test_samples_that_were_lost_are_no_success_of_a_loop_that_is_left_early(self):
        self.made.sampler.advance(torch.tensor([0, 0, 1, 2]))
        with self.assertRaisesRegex(
                Inexact, "^training has ended, but samples were lost or repeated: ") as end:
            with self.made:
                next(self.batches())
                self.made.step()
        self.assertFalse(self.made.sampler.is_done)
        self.assertEqual((end.exception.exit_code, self.session.finish_timeouts), (80, []))

    def use_each_batch(self, step):
        """By a program that leaves out batches where `step` raises anything."""
        with self.made:
            for _ in self.batches():
                with contextlib.suppress(Exception):
                    step()

    def test_an_update_that_fails_halfway_ends_the_job_though_the_program_catches_why(self):
        def clip():
            if self.made.step_count == 2:
                raise ValueError("no such norm")

        with unittest.mock.patch.object(errors, "_end", None):
            with self.assertRaisesRegex(
                    LockstepError, "^the update after step 2 failed halfway with ValueError: no "
                    "such norm. Some weights may have changed, so this rank cannot continue. "):
                self.use_each_batch(lambda: self.made.step(before_update=clip))
            self.assertEqual(errors._end[0], 1)
        self.assertEqual((self.made.step_count, self.session.finish_timeouts), (2, []))

    def test_an_update_that_fails_halfway_after_the_loop_is_not_finished(self):
        next(self.batches())
        with unittest.mock.patch.object(errors, "_end", None):
            with self.assertRaises(ZeroDivisionError):
                self.made.step(before_update=lambda: 1 // 0)
            self.made._at_exit()
            self.made.close()
            self.assertEqual(errors._end[0], 1)
        self.assertEqual(self.session.finish_timeouts, [])

    def test_a_step_that_fails_before_its_update_does_not_lose_the_batch(self):
        failing = unittest.mock.patch.object(
            self.made._reducer, "reduce", side_effect=RuntimeError("out of memory"))
        with failing, self.assertRaisesRegex(
                LockstepError, "not called for the last batch, or the program caught its error"):
            self.use_each_batch(self.made.step)
        self.assertEqual((self.made.step_count, self.session.finish_timeouts), (0, []))

    def test_a_program_that_begins_another_loop_after_the_end_is_ended(self):
        count = 0
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
            while True:
                count += 1
                with contextlib.suppress(Exception):
                    for _ in self.batches():
                        self.made.step(math.nan)
        self.assertEqual((end.exception.code, count), (79, 2))
        self.assertRegex(said.getvalue(), "^lockstep: the loss of step 1 is NaN: ")

    def test_a_loader_that_a_loss_would_find_used_up_is_refused_at_once(self):
        with self.assertRaisesRegex(InvalidArgument, "^batches: generator found, which cannot"):
            next(self.made.batches(one for one in []))


if __name__ == "__main__":
    unittest.main()
