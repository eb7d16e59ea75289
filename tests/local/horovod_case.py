"""Programs written for Horovod that run on lockstep.horovod: what their tests share."""

import re

from harness import LocalTest, command_manifest
from own_program_case import STEPS, OwnProgramCase

PROGRAM_STEPS = 40
# Of sums in another order.
LOSS_DELTA = 1e-5


def losses(text):
    """Of each step or epoch that a program has told of."""
    return [float(loss) for _, loss in re.findall(r"step (\d+) loss ([0-9.]+)", text)]


class HorovodCase(LocalTest):
    """A program for Horovod beside itself on one process that has none."""

    def together(self, command, workers, processes=1):
        """What rank 0 says of ranks that run `command`, a list of words, and know their places."""
        run = self.run_job(command_manifest(command, name="hvd", workers=workers).replace(
            f"replicas: {workers}", f"replicas: {workers}\n    processes: {processes}"))
        self.assertEqual(run.exit_code, 0, run.output)
        for rank in range(workers * processes):
            pod, local_rank = divmod(rank, processes)
            self.assertIn(f"rank {rank} of {workers * processes}, local {local_rank} of "
                          f"{processes}, cross {pod} of {workers}",
                          run.pod_log(f"hvd-worker-{pod}"))
        return run.pod_log("hvd-worker-0")

    def check_same(self, own, other, count):
        """So many losses are equal in what two runs have said."""
        found, expected = losses(own), losses(other)
        self.assertEqual((len(found), len(expected)), (count, count))
        for one, another in zip(found, expected):
            self.assertAlmostEqual(one, another, delta=LOSS_DELTA)


class ElasticCase(OwnProgramCase):
    """An elastic program for Horovod, disturbed."""

    def check_losses_of_one_and_two(self):
        """A job of two ranks has the losses of a job of one."""
        found = []
        for workers in (1, 2):
            run = self.run_job(self.manifest(workers=workers))
            self.assertEqual(run.exit_code, 0, run.output)
            found.append(losses(run.pod_log("own-worker-0")))
            self.assertEqual(len(found[-1]), STEPS)
        for own, other in zip(*found):
            self.assertAlmostEqual(own, other, delta=LOSS_DELTA)
