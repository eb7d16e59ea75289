"""A loop of somebody else's, on a session without peers."""

import unittest
import unittest.mock

import torch

from lockstep.session import Meeting, Member
from lockstep.torch.groups.job_test import JobCase
from lockstep.torch.groups.steps import Steps


class Loop:
    """One that counts nothing."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class OwnLoop(JobCase):
    def setUp(self):
        super().setUp()
        unittest.mock.patch.multiple(
            torch.distributed, get_world_size=lambda: 1, is_initialized=lambda: False).start()
        self.steps = Steps(
            model=self.model, optimizer=torch.optim.SGD(self.model.parameters(), lr=0.1),
            loop=Loop(), step=0, steps_total=3)

    def compute(self):
        loss = self.model(torch.arange(4.0).reshape(4, 1)).square().mean()
        loss.backward()
        return loss

    def test_calls_between_steps_raise_after_a_step_that_others_had_taken_already(self):
        def meet(has_state, step, timeout):
            self.control.session.meeting = Meeting(2, 0, 1, 0, (Member(0, 1, True, 0, "host"),))

        with self.lost_vote(self.steps), unittest.mock.patch.object(
                self.control.session, "meet", meet):
            self.steps.take(self.compute)
        self.assertEqual((self.steps.step_count, self.control.raises), (1, True))
        self.steps.take(self.compute)
        self.assertEqual((self.steps.step_count, self.control.raises), (2, True))

    def part(self, name):
        def compute():
            self.calls.append((name, self.control.raises))
            return self.compute()

        return compute

    def test_all_parts_of_a_step_are_computed_again_after_a_loss(self):
        self.calls = []
        lost = self.lost_vote(self.steps)

        def meet(has_state, step, timeout):
            self.control.session.meeting = Meeting(2, 0, 1, 0, (Member(0, 0, True, 0, "host"),))
            lost.stop()

        lost.start()
        with unittest.mock.patch.object(self.control.session, "meet", meet):
            self.steps.add(self.part("first"))
            self.assertTrue(self.control.raises)
            self.steps.take(self.part("last"))
        self.assertEqual(self.calls, [("first", False), ("last", False)] * 2)
        self.assertEqual((self.steps.step_count, self.control.raises), (1, True))

    def test_the_loss_of_a_step_is_the_sum_of_its_parts(self):
        self.steps.add(lambda: self.compute() * 0 + 2)
        self.assertEqual(self.steps.take(lambda: self.compute() * 0 + 3).item(), 5)
        self.assertEqual(self.steps.take(lambda: self.compute() * 0 + 1).item(), 1)


if __name__ == "__main__":
    unittest.main()
