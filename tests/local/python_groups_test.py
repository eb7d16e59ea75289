"""lockstep.torch.groups: ranks that train by torch's own groups are killed at each place of a step.
The others keep their processes, groups and models, and the weights come out as ever. It needs a
torch whose backends Python can make, and gloo stands for NCCL."""

import pathlib
import re
import subprocess
import unittest

from harness import command_manifest
from own_program_case import OwnProgramCase
from python_case import PACKAGE, PYTHON, VARIABLES, can_make_backends, python_words

PROGRAM = pathlib.Path(__file__).with_name("python_groups_program.py")
KINDS = PROGRAM.with_name("python_groups_kinds_program.py")
STEPS = 8
# A replacement imports torch for longer than a minute on a busy machine.
PATIENCE = "{rendezvousTimeoutSeconds: 250}"


@unittest.skipUnless(can_make_backends(), "a torch of 2.15 or newer is not installed")
class GroupsCase(OwnProgramCase):
    """Runs of python_groups_program.py."""

    known_ends = {}  # of undisturbed runs, by what was run

    def environment(self):
        """torch leaves its caches among temporary files."""
        return {**super().environment(), "TMPDIR": str(self.scratch)}

    def train(self, kind, *words, workers=2):
        """Runs to the end; the ranks of the moments among `words` die there, all others keep their
        process. Returns how the ranks have ended, which is equal."""
        manifest = command_manifest(python_words(PROGRAM, kind, str(STEPS), *words), name="own",
                                    workers=workers, backoff_limit=3, recovery=PATIENCE)
        run = self.run_job(manifest)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(run.summary["restarts"], [], run.output)
        for rank in range(workers):
            deaths = sum(word.split(":")[1] == str(rank) for word in words
                         if ":" in word and not word.startswith("deaf:"))
            self.assertLessEqual(len(self.pids(run.directory, rank)), deaths + 1)
            lost = run.pod_log(f"own-worker-{rank}").count("a new process takes its place")
            self.assertEqual(lost, deaths, run.output)
        ends = [re.findall(r"after \d+ steps: .*", run.pod_log(f"own-worker-{rank}"))
                for rank in range(workers)]
        self.assertEqual(ends, [ends[0]] * workers)
        self.assertEqual(len(ends[0]), 1, run.output)
        self.steps_back = [re.findall(r"going back from step (\d+) to the copy of step (\d+)",
                                      run.pod_log(f"own-worker-{rank}")) for rank in range(workers)]
        return ends[0][0]

    def check_restart(self, kind, *words, workers, why):
        """A shard is lost after step 3 for the reason `why`, and new pods train from the
        beginning."""
        run = self.run_job(command_manifest(
            python_words(PROGRAM, kind, str(STEPS), *words), name="own", workers=workers,
            backoff_limit=3, recovery=PATIENCE))
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertRegex(run.output, r"the shard of rank \d after step 3 is lost: .*" + why)
        self.assertEqual(len(run.summary["restarts"]), 1, run.output)
        self.assertRegex(run.output, rf"after {STEPS} steps: ")

    def check(self, kind, *words, moments, workers=2):
        """The weights after deaths at `moments` are those of an undisturbed run to the bit."""
        kept = (word for word in words if word not in ("raises", "frozen", "copies"))
        key = (kind, *kept, workers)
        if key not in self.known_ends:
            self.known_ends[key] = self.train(*key[:-1], workers=workers)
            self.assertIn(f"after {STEPS} steps", self.known_ends[key])
        self.assertEqual(self.train(kind, *words, *moments, workers=workers), self.known_ends[key])


class Ddp(GroupsCase):
    """DistributedDataParallel, with dropout, BatchNorm, clipping and a scheduler."""

    def test_a_rank_killed_in_the_midst_of_backward_and_then_the_other_before_forward(self):
        self.check("ddp", moments=["allreduce.2:1:3", "forward:0:6"])

    def test_calls_of_a_lost_step_raise_where_they_are_to(self):
        self.check("ddp", "raises", moments=["allreduce.2:1:3", "allreduce.1:0:5"])

    def test_a_rank_killed_when_all_have_voted(self):
        self.check("ddp", moments=["update:1:2", "update:0:5"])

    def test_views_unused_parameters_accumulation_and_a_scaler(self):
        self.check("ddp", "view", "unused", "accumulate", "scaler",
                   moments=["allreduce.2:1:3", "forward:0:6"])

    def test_a_rank_that_does_not_hear_the_outcome_of_a_vote(self):
        self.check("ddp", moments=["deaf:1:3", "deaf:0:5"])

    def test_a_rank_killed_in_a_sum_of_the_programs_own_after_a_step(self):
        self.check("ddp", "metric", moments=["metric:1:4"])

    def test_a_replacement_sums_the_same_gradients_after_a_backward_pass_before_the_job(self):
        self.check("ddp", "warm", moments=["forward:1:1"])

    def test_a_replacement_sums_the_same_gradients_after_a_layer_was_frozen(self):
        self.check("ddp", "freezes", "unused", moments=["forward:1:4"])

    def test_a_loop_of_the_programs_own_goes_on_when_ranks_are_killed_in_its_steps(self):
        self.check("ddp", "steps", moments=["allreduce.2:1:3", "update:0:5"])

    def test_a_loop_of_the_programs_own_takes_a_step_whose_outcome_it_did_not_hear(self):
        self.check("ddp", "steps", moments=["deaf:1:3", "deaf:0:5", "deaf:1:7"])

    def test_a_frozen_rank_is_found_out_and_replaced(self):
        self.check("ddp", "frozen", moments=["forward:1:3"])

    def test_a_rank_killed_in_its_set_up(self):
        self.check("ddp", moments=["setup:1:0"])

    def test_three_ranks_stay_equal_where_one_is_killed_then_two_and_one_in_the_meeting(self):
        self.train("ddp", "allreduce.2:2:2", "allreduce.2:1:4", "allreduce.2:0:4",
                   "allreduce.2:2:6", "meeting:1:6", workers=3)


class Shards(GroupsCase):
    """fully_shard: two rows of replicas (HSDP), and none."""

    def test_a_shard_comes_from_the_rank_that_holds_the_same(self):
        self.check("hsdp", moments=["reduce_scatter_single.2:3:3", "all_gather_single.2:0:5"],
                   workers=4)

    def test_calls_of_a_lost_step_raise_where_they_are_to(self):
        self.check("hsdp", "raises", moments=["all_gather_single.2:3:3",
                                              "reduce_scatter_single.2:0:5"], workers=4)

    def test_ranks_killed_when_all_have_voted_and_in_the_sum_over_replicas(self):
        self.check("hsdp", moments=["update:1:2", "allreduce.1:2:5"], workers=4)

    def test_a_rank_that_does_not_hear_the_outcome_of_a_vote_takes_the_step_by_itself(self):
        self.check("hsdp", moments=["deaf:2:3"], workers=4)

    def test_a_rank_that_did_not_hear_the_outcome_takes_the_step_though_another_is_lost_then(self):
        self.check("hsdp", "metric", moments=["deaf:2:3", "metric:1:4"], workers=4)

    def test_extra_that_is_not_the_same_on_all_ranks_is_refused_by_name(self):
        for word, refusal in (("ema", "called by state_dict of extra: ema"),
                              ("shard", "extra/shard/.* differs between rank 0 and rank 1: extra")):
            run = self.run_job(command_manifest(python_words(PROGRAM, "fsdp", str(STEPS), word),
                                                name="own"))
            self.assertEqual(run.exit_code, 1, run.output)
            self.assertRegex(run.output, refusal)

    def test_without_a_rank_that_holds_the_same_the_gang_starts_anew(self):
        self.check_restart(
            "fsdp", "reduce_scatter_single.2:1:3", workers=2,
            why="no other rank holds this shard; on a mesh with a dimension of replicas")
        self.check_restart(
            "hsdp", "reduce_scatter_single.2:3:3", "reduce_scatter_single.2:1:3", workers=4,
            why="which held the same shard, are lost as well")


class Copies(GroupsCase):
    """fully_shard without replicas, with copies in the other pod every three steps. The weights are
    those of a run without copies."""

    def check_back(self, *moments, words=(), back):
        """`back`: by rank, the steps from which it goes back, and to which. None is killed twice: a
        rank that is killed again before its report has arrived is replaced with its pod."""
        self.check("fsdp", "copies", *words, moments=moments)
        self.assertEqual(self.steps_back, back)

    def test_ranks_go_back_when_one_is_killed_in_backward_and_in_the_midst_of_a_copy(self):
        self.check_back("reduce_scatter_single.2:1:5", "copy.2:0:6",
                        back=[[("5", "3")], [("6", "3")]])

    def test_ranks_go_back_from_the_end_when_one_is_killed_with_the_last_vote(self):
        self.check_back("forward:1:4", "update:0:7", words=("raises", "scaler"),
                        back=[[("4", "3")], [("8", "6")]])

    def test_a_copy_that_a_meeting_without_a_loss_has_ended_is_made_in_it(self):
        self.check_back("deaf:1:5", "forward:0:7", back=[[], [("7", "6")]])

    def test_without_a_rank_and_the_one_that_has_its_copy_the_gang_starts_anew(self):
        self.check_restart("fsdp", "copies", "forward:1:3", "forward:2:3", workers=3,
                           why="rank 2, which had the copy of it, is lost as well")

    def test_all_ranks_of_a_pod_get_their_shards_from_the_other_pod(self):
        manifest = command_manifest(
            python_words(PROGRAM, "fsdp", str(STEPS), "copies", "forward:2:4", "forward:3:4"),
            name="own", backoff_limit=3, recovery=PATIENCE).replace(
                "replicas: 2", "replicas: 2\n    processes: 2")
        run = self.run_job(manifest)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(len(self.pids(run.directory, 0)), 2, run.output)  # of ranks 0 and 1
        self.assertEqual(run.pod_log("own-worker-0").count("from step 4 to the copy of step 3"), 2)
        ends = re.findall(rf"after {STEPS} steps: .*", run.output)
        self.assertEqual((len(ends), len(set(ends))), (4, 1), run.output)


class Calls(GroupsCase):
    def test_what_torch_builds_on_groups(self):
        run = self.run_job(command_manifest(python_words(KINDS), name="own", workers=4))
        self.assertEqual(run.exit_code, 0, run.output)
        for rank in range(4):
            log = run.pod_log(f"own-worker-{rank}")
            for check in ("calls", "futures", "between_ranks", "objects", "functional", "groups",
                          "meshes", "models", "checkpoints"):
                self.assertIn(f"check_{check} is right", log)
            self.assertIn("the end is right", log)

    def test_groups_with_and_without_a_lost_rank_are_formed_in_one_meeting(self):
        self.train("ddp", "pairs", "allreduce.1:1:3", "allreduce.3:2:5", workers=3)

    def test_a_group_that_a_replacement_does_not_make_is_named(self):
        manifest = command_manifest(
            python_words(PROGRAM, "ddp", str(STEPS), "late", "forward:1:4"), name="own",
            backoff_limit=3)
        run = self.run_job(manifest)
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertRegex(
            run.pod_log("own-worker-0"), r"group \d+/gloo has ranks \[0, 1\] on rank 0, but does "
            "not exist on rank 1: .*make all groups before the Job")

    def test_the_set_up_of_a_replacement_asks_for_what_only_others_have(self):
        manifest = command_manifest(
            python_words(PROGRAM, "ddp", str(STEPS), "shares", "forward:1:3"), name="own",
            backoff_limit=3)
        run = self.run_job(manifest)
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("broadcast_object_list: called by a process that replaces a lost rank",
                      run.pod_log("own-worker-1"))


@unittest.skipUnless(can_make_backends(), "a torch of 2.15 or newer is not installed")
class Parts(unittest.TestCase):
    def test_the_units_that_need_such_a_torch(self):
        for path in sorted((PACKAGE / "lockstep" / "torch" / "groups").glob("*_test.py")):
            ran = subprocess.run(
                [PYTHON, "-B", "-m", "unittest", f"lockstep.torch.groups.{path.stem}"],
                env={**VARIABLES, "PYTHONPATH": str(PACKAGE), "PATH": "/usr/bin:/bin"},
                capture_output=True, text=True, check=False)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertNotIn("skipped", ran.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
