"""lockstep.numpy: what calls do, how errors are told, Ctrl-C, and examples/own_program.py, whose
lost ranks are replaced while the others keep their processes."""

import json
import pathlib
import subprocess
import unittest

from harness import REPOSITORY, LocalTest, command_manifest
from own_program_case import OwnProgramCase
from python_case import PYTHON, VARIABLES, can_import, python_words

RANK = pathlib.Path(__file__).with_name("python_rank.py")


class Package(unittest.TestCase):
    def test_needs_neither_numpy_nor_torch_to_be_imported(self):
        code = ("import sys; sys.modules['numpy'] = sys.modules['torch'] = None\n"
                "import lockstep; print(lockstep.Op.SUM.name)")
        ran = subprocess.run([PYTHON, "-B", "-c", code], env=VARIABLES,
                             capture_output=True, text=True, check=False)
        self.assertEqual((ran.returncode, ran.stdout), (0, "SUM\n"), ran.stderr)


@unittest.skipUnless(can_import("numpy"), "python3-numpy is not installed")
class Calls(LocalTest):
    """Each part of python_rank.py checks itself."""

    def run_part(self, part, workers=2):
        run = self.run_job(command_manifest(python_words(RANK, part), workers=workers))
        self.assertEqual(run.exit_code, 0, run.output)

    def test_every_collective_and_type(self):
        self.run_part("collectives", workers=3)

    def test_calls_that_are_begun_and_waited_for_later_or_never(self):
        self.run_part("begun")

    def test_wrong_arguments_and_sessions(self):
        self.run_part("arguments")

    def test_ranks_that_call_different_things(self):
        self.run_part("mismatch")

    def test_ranks_that_catch_a_mismatch_and_end_with_0_fail_the_job(self):
        self.check_failure("swallow", "ended with exit code 0, but the ranks had made different "
                           "calls, so this pod ends with 1: .*rank 0")

    def test_ranks_that_end_before_the_steps_they_told_of_fail_the_job(self):
        self.check_failure("end_before_the_plan", "ended with exit code 0, but last reported "
                           "step 3 of 8, and never reported that all work is done, so this ")

    def check_failure(self, part, words):
        """No other try is made."""
        run = self.run_job(command_manifest(
            python_words(RANK, part), workers=2, backoff_limit=6))
        self.assertEqual((run.exit_code, run.summary["restarts"]), (1, []), run.output)
        self.assertRegex(run.output, words)

    def test_a_rank_that_never_calls(self):
        self.run_part("silent", workers=3)

    def test_fork_in_the_middle(self):
        self.run_part("fork")

    def test_abort_from_another_thread(self):
        self.run_part("abort", workers=3)

    def test_control_c_ends_a_call_that_waits(self):
        self.run_part("interrupted")

    def test_exit_codes(self):
        self.run_part("ends", workers=1)

    def test_a_rank_that_leaves_early_fails_the_job_and_no_other_try_is_made(self):
        for workers, processes, leaver, who in ((3, 1, 0, r"pod command-worker-0 \(rank 0\)"),
                                                (3, 1, 1, r"pod command-worker-1 \(rank 1\)"),
                                                (1, 2, 1, "rank 1 of pod command-worker-0")):
            manifest = command_manifest(python_words(RANK, "leave_early", str(leaver)),
                                        workers=workers, backoff_limit=6)
            run = self.run_job(manifest.replace(
                f"replicas: {workers}", f"replicas: {workers}\n    processes: {processes}"))
            self.assertEqual((run.exit_code, run.summary["restarts"]), (1, []), run.output)
            self.assertRegex(run.output,
                             who + " exited with code 0 while other ranks still needed it: ")
            self.assertIn("  to continue   fix the cause above, then lockstep run", run.output)

    def test_ranks_that_are_killed_when_all_work_is_done_have_succeeded(self):
        run = self.run_job(command_manifest(
            python_words(RANK, "die_when_done"), workers=3, backoff_limit=3))
        self.assertEqual((run.exit_code, run.summary["restarts"]), (0, []), run.output)
        self.assertEqual(run.output.count("has begun"), 3, run.output)
        for rank in range(2):
            self.assertRegex(run.pod_log(f"command-worker-{rank}"),
                             "ended by a signal after all ranks had reported .*SIGKILL")

    def test_says_what_is_missing_outside_a_job(self):
        code = "import lockstep.numpy; lockstep.numpy.open()"
        ran = subprocess.run([*python_words("-c", code)], env={}, capture_output=True, text=True,
                             check=False)
        self.assertIn("lockstep.errors.NoJob: this process belongs to no job", ran.stderr)


@unittest.skipUnless(can_import("numpy"), "python3-numpy is not installed")
class Recovery(OwnProgramCase):
    """examples/own_program.py, disturbed."""

    program = python_words(REPOSITORY / "examples" / "own_program.py")

    def test_killed_ranks_are_replaced_and_the_model_is_that_of_an_undisturbed_run(self):
        self.check_killed_ranks([0], [1, 2])

    def test_a_stop_ends_all_ranks_after_the_same_step(self):
        started = self.start_and_meet(self.manifest(steps=100000))
        _, directory, _ = started
        run = self.stop(started)
        self.assertEqual(run.exit_code, 130, run.output)
        ends = [[line for line in self.log(directory, rank).splitlines() if "asked to stop" in line]
                for rank in range(3)]
        self.assertRegex(ends[0][0], r"asked to stop after \d+ steps")
        self.assertEqual({end[0].split("] ")[1] for end in ends},
                         {ends[0][0].split("] ")[1]})

    def test_the_others_give_up_where_a_rank_has_left(self):
        leaving = ("import os, runpy, sys, lockstep.numpy\n"
                   "if os.environ['RANK'] == '1':\n"
                   "    lockstep.numpy.Session.report = lambda *_: sys.exit(0)\n"
                   "runpy.run_path(sys.argv.pop(1), run_name='__main__')")
        manifest = command_manifest(
            python_words("-c", leaving, self.program[-1], "150", "20"), workers=3, backoff_limit=6,
            recovery="{rendezvousTimeoutSeconds: 8}")
        run = self.run_job(manifest)
        self.assertEqual((run.exit_code, run.summary["restarts"]), (1, []), run.output)
        self.assertRegex(run.output, r"pod command-worker-1 \(rank 1\) exited with code 0 while "
                                     "other ranks still needed it: ")
        self.assertIn("joining a new rendezvous: ", run.pod_log("command-worker-0"))


@unittest.skipUnless(can_import("numpy"), "python3-numpy is not installed")
class WarmRecovery(OwnProgramCase):
    """examples/own_program.py, whose processes are forked from an interpreter that has NumPy."""

    program = [PYTHON, str(REPOSITORY / "examples" / "own_program.py")]

    def manifest(self, **changes):
        # Where the library is, a template may not say by our own variable.
        variables = {**VARIABLES, "PYTHONDONTWRITEBYTECODE": "1"}
        library = variables.pop("LOCKSTEP_LIBRARY", None)
        if library is not None:
            variables["LD_LIBRARY_PATH"] = str(pathlib.Path(library).parent)
        env = [{"name": name, "value": value} for name, value in variables.items()]
        text = super().manifest(**changes)
        return text.replace("          image: local\n",
                            f"          image: local\n          env: {json.dumps(env)}\n").replace(
            "    restartPolicy:", "    warm: [numpy]\n    restartPolicy:")

    def start_and_meet(self, manifest=None, workers=3):
        started = super().start_and_meet(manifest, workers)
        pids = [self.pids(started[1], rank)[-1] for rank in range(workers)]
        self.commands = [pathlib.Path(f"/proc/{pid}/cmdline").read_text() for pid in pids]
        return started

    def test_killed_ranks_are_forked_again_and_the_model_is_that_of_an_undisturbed_run(self):
        expected = self.undisturbed()
        run = self.lose([1, 2])
        self.assertEqual(self.models(run), expected)
        for rank in range(3):
            self.assertIn("lockstep_fork_server", self.commands[rank])
            self.assertNotIn("warm", run.pod_log(f"own-worker-{rank}"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
