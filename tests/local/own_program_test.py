"""Programs of one's own on liblockstep, in plain C: what calls do, how errors are told, and how a
lost rank is replaced while the others keep their processes."""

import os
import re
import signal
import subprocess
import unittest

from harness import BIN, REPOSITORY, LocalTest, command_manifest
from own_program_case import STEPS, OwnProgramCase

LIBRARY = BIN / "liblockstep.so"
GLIBC_PARTS = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
               "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
GLIBC_MAX = (2, 34)


class Library(unittest.TestCase):
    def output_of(self, *command):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def test_needs_nothing_but_glibc_2_34(self):
        dynamic = self.output_of("readelf", "--dynamic", LIBRARY)
        needed = set(re.findall(r"NEEDED.*\[(\S+)\]", dynamic))
        self.assertIn("libc.so.6", needed)
        self.assertEqual(needed - GLIBC_PARTS, set())
        self.assertIn("[liblockstep.so.1]", dynamic)
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)", self.output_of("objdump", "-T", LIBRARY))
        self.assertLessEqual(max((int(major), int(minor)) for major, minor in versions), GLIBC_MAX)

    def test_shows_what_the_header_declares_under_its_version_and_no_more(self):
        header = (REPOSITORY / "trainer-runtime" / "capi" / "lockstep.h").read_text()
        declared = set(re.findall(r"^(?:lockstep_status|const char\*|int) (lockstep_\w+)\(",
                                  header, re.MULTILINE))
        self.assertGreaterEqual(len(declared), 16)
        shown = self.output_of("nm", "--dynamic", "--defined-only", LIBRARY).split()[2::3]
        later = {"lockstep_should_save": "LOCKSTEP_2", "lockstep_await_loss": "LOCKSTEP_3",
                 "lockstep_report_mismatch": "LOCKSTEP_4",
                 "lockstep_last_system_error": "LOCKSTEP_5"}
        later.update((name, "LOCKSTEP_5") for name in declared if "_checkpoint_" in name)
        expected = {f"{name}@@{later.get(name, 'LOCKSTEP_1')}" for name in declared}
        self.assertEqual(set(shown), expected | {f"LOCKSTEP_{number}" for number in range(1, 6)})

    def test_header_is_c99_and_cpp_by_itself(self):
        include = f"-I{REPOSITORY}/trainer-runtime/capi"
        for command in (["cc", "-std=c99", "-xc"], ["c++", "-std=c++11", "-xc++"]):
            subprocess.run([*command, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
                            include, "-"], input="#include <lockstep.h>\n", text=True, check=True)

    def test_says_what_is_missing_outside_a_job(self):
        ran = subprocess.run([BIN / "lockstep_c_rank", "alone"], env={}, capture_output=True,
                             text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)


class Calls(LocalTest):
    """Each part of lockstep_c_rank checks itself, in C."""

    def run_part(self, part, workers=2, processes=1):
        manifest = command_manifest([str(BIN / "lockstep_c_rank"), part], workers=workers)
        run = self.run_job(
            manifest.replace(f"replicas: {workers}",
                             f"replicas: {workers}\n    processes: {processes}"))
        self.assertEqual(run.exit_code, 0, run.output)
        return run

    def test_every_collective_type_and_operation(self):
        self.run_part("collectives", workers=2)
        self.run_part("collectives", workers=3)

    def test_collectives_of_two_pods_of_two_processes(self):
        self.run_part("collectives", workers=2, processes=2)

    def test_calls_that_are_begun_and_waited_for_later(self):
        self.run_part("begun", workers=3)

    def test_wrong_arguments_and_handles(self):
        self.run_part("arguments")

    def test_ranks_that_call_different_things(self):
        self.run_part("mismatch", workers=3)

    def test_ranks_of_different_plans_do_not_meet_and_their_exit_code_0_is_no_success(self):
        run = self.run_job(command_manifest([str(BIN / "lockstep_c_rank"), "plans"], workers=2))
        self.assertEqual((run.exit_code, run.summary["restarts"]), (1, []), run.output)
        self.assertEqual(run.output.count("plans: as it should"), 2, run.output)
        self.assertRegex(run.output, "but the ranks had made different calls, so .*plan")

    def test_a_rank_that_never_calls(self):
        self.run_part("silent", workers=3)

    def test_a_rank_that_never_meets(self):
        self.run_part("absent", workers=3)

    def test_fork_in_the_middle(self):
        self.run_part("fork")

    def test_abort_from_another_thread(self):
        self.run_part("abort")

    def test_rank_0_that_leaves_early_fails_the_job(self):
        """Its exit code 0 alone would be the job's success."""
        manifest = command_manifest([str(BIN / "lockstep_c_rank"), "leave_early"], workers=3,
                                    backoff_limit=6)
        run = self.run_job(manifest)
        self.assertEqual((run.exit_code, run.summary["restarts"]), (1, []), run.output)
        self.assertRegex(run.output, r"pod command-worker-0 \(rank 0\) exited with code 0 while "
                                     "other ranks still needed it: ")

    def test_a_session_that_only_reports(self):
        manifest = command_manifest([str(BIN / "lockstep_c_rank"), "report_only"], name="only")
        run = self.run_job(manifest)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual((run.summary["steps"], run.summary["loss"]), (7, 0.25))

    def test_a_killed_process_that_only_reported_is_not_replaced_beside_the_others(self):
        command = [str(BIN / "lockstep_c_rank"), "report_and_die"]
        run = self.run_job(command_manifest(command, name="only", workers=1, backoff_limit=1))
        self.assertEqual((run.exit_code, len(run.summary["restarts"])), (1, 1), run.output)
        # Once in each attempt of the gang.
        self.assertEqual(run.output.count("has reported"), 2, run.output)

    def test_a_job_of_one(self):
        self.run_part("fork", workers=1)


class Recovery(OwnProgramCase):
    """examples/own_program.c, disturbed."""

    program = [str(BIN / "lockstep_own_program")]

    def test_a_killed_rank_is_replaced_and_the_model_is_that_of_an_undisturbed_run(self):
        self.check_killed_ranks([0], [2])

    def test_two_killed_ranks_are_replaced(self):
        self.assertEqual(self.models(self.lose([0, 1])), self.undisturbed())

    def test_a_frozen_rank_is_found_out_and_replaced(self):
        self.assertEqual(self.models(self.lose([1], signal.SIGSTOP)), self.undisturbed())

    def test_a_lost_pod_is_replaced_and_the_others_keep_their_processes(self):
        expected = self.undisturbed()
        started = self.start_and_meet()
        _, directory, _ = started
        before = [self.pids(directory, rank) for rank in range(3)]
        os.kill(self.supervisor_of(before[0][0]), signal.SIGKILL)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual([(entry["cause"], entry["count"]) for entry in run.summary["restarts"]],
                         [("killed", 1)])
        for rank in (1, 2):
            self.assertEqual(self.pids(directory, rank), before[rank])
        successor = re.findall(r"after \d+ steps: .*", run.pod_log("own-worker-0-r1"))
        self.assertEqual([successor, *self.models(run)[1:]], expected)

    def test_a_job_that_wants_no_restart_fails_with_its_process(self):
        started = self.start_and_meet(self.manifest(backoff_limit=0))
        _, directory, _ = started
        os.kill(self.pids(directory, 1)[0], signal.SIGKILL)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertEqual(len(self.pids(directory, 1)), 1)

    def test_progress_is_seen_while_it_runs_and_in_the_summary(self):
        started = self.start_and_meet()
        self.wait_for(lambda: (self.metric(started, "lockstep_training_step") or 0) > 0)
        self.assertGreater(self.metric(started, "lockstep_training_loss"), 0)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(run.summary["steps"], STEPS)
        self.assertEqual(run.summary["stepsTotal"], STEPS)
        self.assertGreater(run.summary["loss"], 0)

    def test_a_rank_that_is_asked_to_go_alone_has_a_successor(self):
        expected = self.undisturbed()
        started = self.start_and_meet()
        _, directory, _ = started
        before = [self.pids(directory, rank) for rank in range(3)]
        os.kill(self.supervisor_of(before[1][0]), signal.SIGTERM)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertIn("asked to stop after", run.pod_log("own-worker-1"))
        for rank in (0, 2):
            self.assertEqual(self.pids(directory, rank), before[rank])
        successor = re.findall(r"after \d+ steps: .*", run.pod_log("own-worker-1-r1"))
        self.assertEqual([self.models(run)[0], successor, self.models(run)[2]], expected)

    def test_a_stop_ends_all_ranks_after_the_same_step(self):
        started = self.start_and_meet(self.manifest(steps=100000))
        process, _, _ = started
        process.send_signal(signal.SIGINT)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 130, run.output)
        ends = [re.findall(r"asked to stop after (\d+) steps", run.pod_log(f"own-worker-{rank}"))
                for rank in range(3)]
        self.assertEqual(len(ends[0]), 1, ends)
        self.assertEqual(ends, [ends[0]] * 3)
        self.assertEqual(run.summary["steps"], int(ends[0][0]))  # the last one is told, too


class Wrapped(OwnProgramCase):
    """The same below a script, which ends a moment after it."""

    program = ["sh", "-c", '"$0" "$@"; code=$?; sleep 0.2; exit $code',
               str(BIN / "lockstep_own_program")]

    def test_a_stop_ends_the_script_with_its_programs_code(self):
        started = self.start_and_meet(self.manifest(steps=100000))
        run = self.stop(started)
        self.assertEqual(run.exit_code, 130, run.output)
        for rank in range(3):
            log = run.pod_log(f"own-worker-{rank}")
            self.assertIn("asked to stop after", log)
            self.assertRegex(log, r"ended when it was asked to.*exit code 42")


if __name__ == "__main__":
    unittest.main(verbosity=2)
