"""Ranks on torch that wait in a collective for one that does not come: the job says which one,
for what the others wait, and where it is. It needs a torch that records collectives of gloo, which
stands for NCCL, and that loads our package by itself."""

import pathlib
import unittest

from harness import LocalTest, command_manifest
from python_case import PYTHON, can_make_backends, entry_points, python_words

PROGRAM = pathlib.Path(__file__).with_name("python_hang_program.py")
NAME = PROGRAM.name.replace(".", r"\.")
LIMIT_SECONDS = 8  # ranks wait for each other at the start, too: longer on a busy machine


@unittest.skipUnless(can_make_backends(), "a torch of 2.15 or newer is not installed")
class HangCourt(LocalTest):
    def environment(self):
        """torch leaves its caches among temporary files."""
        return {**super().environment(), "TMPDIR": str(self.scratch)}

    def run_ranks(self, *words, workers=1, processes=2):
        env, *rest = python_words(PROGRAM, *map(str, words))
        place = rest.index(PYTHON)
        variables = entry_points(self.scratch / "metadata")
        manifest = command_manifest([env, *rest[:place], *variables, *rest[place:]], name="own",
                                    workers=workers,
                                    recovery=f"{{hungAfterSeconds: {LIMIT_SECONDS}}}")
        return self.run_job(manifest.replace(
            f"replicas: {workers}\n", f"replicas: {workers}\n    processes: {processes}\n"))

    def check(self, run, sentence):
        self.assertNotEqual(run.exit_code, 0, run.output)
        self.assertRegex(run.output, f"hangs: {sentence}")
        self.assertIn("cause hang", run.output)

    def test_a_rank_in_data_loading(self):
        self.check(self.run_ranks("data", 1, 7),
                   r"rank 1 has not called all_reduce #7 of group default_pg, in which 1 rank "
                   rf"waits; rank 1 is in load_batch \({NAME}:\d+\)")

    def test_a_rank_in_compute(self):
        self.check(self.run_ranks("compute", 0, 7, processes=3),
                   r"rank 0 has not called all_reduce #7 of group default_pg, in which 2 ranks "
                   rf"wait; rank 0 is in compute \({NAME}:\d+\)")

    def test_a_rank_that_has_skipped_a_collective(self):
        self.check(self.run_ranks("skip", 1, 7),
                   r"rank 1 has not called all_reduce #20 of group default_pg, in which 1 rank "
                   rf"waits; rank 1 is in finish \({NAME}:\d+\)")

    def test_a_rank_in_another_pod(self):
        """Neither pod knows the other's rank: the operator joins what they know."""
        self.check(self.run_ranks("data", 1, 7, workers=2, processes=1),
                   r"rank 1 has not called all_reduce #7 of group default_pg, in which 1 rank "
                   rf"waits; rank 1 is in load_batch \({NAME}:\d+\)")

    def test_a_rank_of_a_program_that_reports_nothing(self):
        """The steps are those of the optimizers of both pods."""
        run = self.run_ranks("data", 1, 7, "unreported", workers=2, processes=1)
        self.check(run, r"rank 1 has not called all_reduce #7 of group default_pg, in which 1 rank "
                   rf"waits; rank 1 is in load_batch \({NAME}:\d+\)")
        self.assertEqual(run.summary["steps"], 6, run.output)

    def test_a_slow_rank_is_not_judged(self):
        run = self.run_ranks("slow", 1, 0)
        self.assertEqual(run.exit_code, 0, run.output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
