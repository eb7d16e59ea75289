"""A saved optimizer's state goes to the parameters it was of, and what it overrules is said."""

import contextlib
import io
import unittest

import torch
from torch import nn

from lockstep.errors import Mismatch
from lockstep.torch.holdings import Holdings
from lockstep.torch.state import flatten, unflatten


def holdings(order=(0, 1, 2, 3), split=4, **settings):
    """Of two layers whose parameters the optimizer has in `order`, `split` of them in a group."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    parameters = list(model.parameters())
    chosen = [parameters[place] for place in order]
    groups = [{"params": group} for group in (chosen[:split], chosen[split:]) if group]
    optimizer = torch.optim.Adam(groups, **{"lr": 0.01, **settings})
    model(torch.arange(6.0).reshape(3, 2)).sin().sum().backward()
    return Holdings(model, optimizer)


def saved(source):
    source.optimizer.step()
    return unflatten(flatten(source.state()))


class OptimizerState(unittest.TestCase):
    def load(self, target, state):
        """What is said."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            target.load(state, is_of_file=True)
        return said.getvalue()

    def moments(self, of):
        return {name: of.optimizer.state[one]["exp_avg"] for name, one in of.parameters().items()
                if one in of.optimizer.state}

    def test_state_goes_by_name_in_whatever_order_parameters_come(self):
        source, target = holdings(split=2), holdings(order=(1, 0, 3, 2), split=2)
        self.assertEqual(self.load(target, saved(source)), "")
        for name, one in self.moments(source).items():
            self.assertTrue(torch.equal(one, self.moments(target)[name]), name)

    def test_other_parameters_in_a_group_are_refused_by_name(self):
        state = saved(holdings(split=2))
        for target, words in (
                (holdings(order=(2, 1, 0, 3), split=2),
                 "model: 0.weight is not in group 0"),
                (holdings(order=(0, 1, 2), split=2),
                 "model: 1.bias is not in group 1"),
                (holdings(order=(0, 1, 2, 3), split=1),
                 "model: 0.bias is not in group 0")):
            with self.assertRaisesRegex(
                    Mismatch, f"^optimizer: {words}, but in the checkpoint it is"):
                self.load(target, state)

    def test_a_file_without_names_is_read_by_position(self):
        source, target = holdings(), holdings()
        state = saved(source)
        del state["optimized"]
        self.load(target, state)
        for name, one in self.moments(source).items():
            self.assertTrue(torch.equal(one, self.moments(target)[name]), name)

    def test_ranks_with_another_order_differ_in_a_term(self):
        first, second = holdings().terms(), holdings(order=(1, 0, 2, 3)).terms()
        self.assertEqual([name for name in first if first[name] != second[name]],
                         ["optimizer: group 0, parameter 0:", "optimizer: group 0, parameter 1:"])

    def test_settings_that_the_checkpoint_overrules_are_said_in_one_line(self):
        target = holdings(lr=0.5, weight_decay=0.1)
        self.assertEqual(self.load(target, saved(holdings())), (
            "lockstep: optimizer group 0: lr 0.01 of the checkpoint is kept, although the program "
            "sets 0.5, weight_decay 0 of the checkpoint is kept, although the program sets 0.1; "
            "to continue with other values, set them on all ranks after the Job is made\n"))
        self.assertEqual(target.optimizer.param_groups[0]["lr"], 0.01)

    def test_what_a_scheduler_has_changed_is_no_difference(self):
        source, target, other = holdings(), holdings(), holdings(lr=0.5)
        for one in (source, target, other):
            torch.optim.lr_scheduler.ExponentialLR(one.optimizer, 0.5)
        source.optimizer.param_groups[0]["lr"] = 0.002
        state = saved(source)
        self.assertEqual(self.load(target, state), "")
        self.assertRegex(
            self.load(other, state),
            "group 0: initial_lr 0.01 of the checkpoint is kept, although the program sets 0.5;")


if __name__ == "__main__":
    unittest.main()
