"""torchruns that meet by the rendezvous `lockstep`: those of pods that are not lost keep their
process, and count no restart. torchrun_rendezvous_soak.py has more."""

import unittest

from torchrun_rendezvous_case import RendezvousCase

A_KILLED_POD = {"cause": "killed", "count": 1}


class Rendezvous(RendezvousCase):
    def test_a_lost_pod_is_replaced_beside_torchruns_that_stay(self):
        run = self.run_ranks("1:7:pod", workers=2, processes=1)
        self.check_trained(run, [1, 2], restarts=[A_KILLED_POD])

    # Before, workers that had ended with 0 would have ended their torchrun.
    def test_all_start_again_where_a_pod_is_lost_when_the_work_of_others_is_done(self):
        run = self.run_ranks("3:0:pod", "idle")
        self.check(run, [1, 2, 1], restarts=[A_KILLED_POD])
        for pod in range(3):
            self.assertEqual(len(self.starts(run, pod)), 4, run.output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
