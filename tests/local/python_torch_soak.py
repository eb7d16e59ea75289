"""lockstep.torch under random losses: LOCKSTEP_PYTHON_RUNS runs, each with ranks killed at chance
places; and one rank that is asked to go. A failing run prints its moments."""

import os
import random
import signal
import unittest

from python_torch_case import STEPS, TorchCase

RUNS = int(os.environ.get("LOCKSTEP_PYTHON_RUNS", "5"))
PLACES = ("forward", "reduce", "update", "after")


def moments_of(seed):
    """Some deaths: of one rank, or of two in the same step. Each rank dies once, as one that dies
    again without a step in between has no successor."""
    chance = random.Random(seed)
    ranks = chance.sample(range(3), chance.choice((1, 2, 2)))
    step = chance.randrange(1, STEPS - 1)
    moments = [f"{chance.choice(PLACES)}:{rank}:{step}" for rank in ranks]
    return moments if 0 in ranks else [*moments, "checkpoint:0:15"]


class Soak(TorchCase):
    def test_any_loss_ends_in_the_weights_of_an_undisturbed_run(self):
        undisturbed = self.ends(self.train())
        for seed in range(RUNS):
            moments = moments_of(seed)
            with self.subTest(moments=moments):
                self.assertEqual(self.ends(self.train(*moments)), undisturbed)

    def test_a_rank_that_is_asked_to_go_alone_has_a_successor(self):
        undisturbed = self.ends(self.train())
        started = self.start(self.manifest())
        _, directory, _ = started
        self.wait_for(lambda: self.pids(directory, 1))
        os.kill(self.supervisor_of(self.pids(directory, 1)[0]), signal.SIGTERM)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(self.all_ends(run), {undisturbed})


if __name__ == "__main__":
    unittest.main(verbosity=2)
