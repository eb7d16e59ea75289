"""lockstep.torch: ranks are killed at each place of a step. The others keep their processes, no
sample is lost or used twice, and the weights come out as ever. python_torch_soak.py has more."""

import json
import pathlib
import re
import unittest

from harness import LocalTest, command_manifest
from python_case import can_import, python_words
from python_torch_case import EPOCHS, SAMPLES, STEPS, TorchCase


class Torch(TorchCase):
    def test_ranks_killed_at_each_place_of_a_step(self):
        run = self.train()
        undisturbed = self.ends(run)
        self.assertIn(f"after {STEPS} steps: lost 0 repeated 0 consumed {EPOCHS * SAMPLES} ",
                      undisturbed)
        self.check_checkpoint(run)
        disturbed = self.train("reduce:1:4", "update:2:9", "checkpoint:0:15")
        self.assertEqual(self.ends(disturbed), undisturbed)

    def check_checkpoint(self, run):
        """The newest is laid out as docs/checkpoints.md says."""
        folder = sorted((run.directory / "checkpoints").glob("step-*"))[-1]
        self.assertEqual(folder.name, f"step-{STEPS:08}")
        raw = (folder / "tensors.safetensors").read_bytes()
        header = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])
        self.assertEqual(header["model/0.weight"]["shape"], [8, 1, 3, 3])
        self.assertEqual(header["lockstep/ledger"]["dtype"], "U8")
        self.assertIn("optimizer/state/0/exp_avg", header)

    def stop_in_the_middle(self, manifest):
        """Returns the run's folder, and the step after which all have left, which is saved."""
        started = self.start(manifest)
        _, directory, _ = started
        self.wait_for(lambda: (directory / "checkpoints" / "step-00000005").exists())
        run = self.stop(started)
        self.assertEqual(run.exit_code, 130, run.output)
        stops = [re.findall(r"asked to stop after (\d+) steps", self.log(directory, rank))
                 for rank in range(3)]
        self.assertEqual(stops, [stops[0]] * 3)
        self.assertEqual(len(stops[0]), 1)
        self.assertEqual(self.newest(directory), f"step-{int(stops[0][0]):08}")
        return directory, int(stops[0][0])

    def test_all_stop_after_the_same_step_and_a_later_run_goes_on_from_there(self):
        directory, step = self.stop_in_the_middle(self.manifest())
        resumed = self.finish(self.start_resumed(directory))
        self.assertEqual(resumed.exit_code, 0, resumed.output)
        self.assertEqual(self.steps_met(directory, 0)[-1], step)
        self.assertEqual(self.all_ends(resumed), {self.ends(self.train())})

    def resume(self, directory, step):
        """Goes on from `step` to the end; the weights are those of an undisturbed run."""
        self.assertEqual(self.newest(directory), f"step-{step:08}")
        resumed = self.finish(self.start_resumed(directory))
        self.assertEqual(resumed.exit_code, 0, resumed.output)
        self.assertEqual(self.steps_met(directory, 0)[-1], step)
        self.assertEqual(self.all_ends(resumed), {self.ends(self.train(workers=2), workers=2)})

    def newest(self, directory):
        return sorted((directory / "checkpoints").glob("step-*"))[-1].name

    def test_a_stop_while_a_lost_rank_is_replaced_keeps_all_steps(self):
        for lost, left in ((1, 0), (0, 1)):
            started = self.start(self.manifest(f"after:{lost}:7", workers=2))
            _, directory, _ = started
            self.wait_for(lambda: "meeting again after step 8" in self.log(directory, left))
            run = self.stop(started)
            self.assertEqual(run.exit_code, 130, run.output)
            self.assertIn("asked to stop after 8 steps\n", self.log(directory, left))
            self.resume(directory, 8)

    def test_a_chief_that_dies_while_it_saves_a_stop_has_somebody_to_do_it(self):
        started = self.start(self.manifest(
            "checkpoint:0:0", workers=2, epochs=50, variables=["CHECKPOINT_EVERY=1000"]))
        _, directory, _ = started
        self.wait_for(lambda: "at epoch" in self.log(directory, 1))
        run = self.stop(started)
        self.assertEqual(run.exit_code, 130, run.output)
        [step] = re.findall(r"asked to stop after (\d+) steps\n", self.log(directory, 1))
        self.assertNotIn("asked to stop", self.log(directory, 0))
        self.assertEqual(self.newest(directory), f"step-{int(step):08}")

    def launcher(self, handed_on):
        """By Python's subprocess. `handed_on`: descriptors, as words of Python."""
        code = f"subprocess.run(sys.argv[1:], pass_fds=[{handed_on}]).returncode"
        return ["python3", "-c", f"import os, subprocess, sys; sys.exit({code})"]

    def test_a_launcher_ends_with_the_code_of_its_program_that_was_stopped(self):
        channel = "int(os.environ['LOCKSTEP_CHANNEL_FD'])"
        directory, _ = self.stop_in_the_middle(
            self.manifest(launcher=self.launcher(channel), variables=["LOADER_WORKERS=1"]))
        for rank in range(3):
            self.assertRegex(self.log(directory, rank), "ended when it was asked to.*exit code 42")

    def test_a_program_whose_launcher_dies_of_the_stop_saves_and_was_told_what_it_lacks(self):
        directory, _ = self.stop_in_the_middle(self.manifest(launcher=self.launcher("")))
        for rank in range(3):
            log = self.log(directory, rank)
            self.assertRegex(log, r"closed its descriptor to the runtime: .*pass_fds=\[\d+\]")
            self.assertRegex(log, "ended when it was asked to.*killed by SIGTERM")

    def test_a_stop_that_cannot_be_saved_says_what_to_put_right(self):
        started = self.start(self.manifest(epochs=1000))
        _, directory, _ = started
        self.wait_for(lambda: (directory / "checkpoints" / "step-00000005").exists())
        (directory / "checkpoints").rename(directory / "removed")
        run = self.stop(started)
        self.assertEqual(run.exit_code, 1, run.output)
        problem = (f"No such file or directory: {directory}/checkpoints; put back what was removed "
                   "or unmounted there; the folder is the job's while it runs")
        self.assertEqual(run.summary["reason"], "stopped by SIGINT, and the checkpoint could not "
                         f"be written by own-worker-0: {problem}")
        self.assertRegex(run.output, rf"own-worker-0.*{problem}")
        self.assertRegex(run.summary["pods"][0]["message"],
                         rf"^asked to stop after \d+ steps, which are not saved: {problem}$")

    def test_workers_of_a_loader_are_in_the_way_of_neither_a_stop_nor_the_end(self):
        directory, _ = self.stop_in_the_middle(self.manifest(variables=["LOADER_WORKERS=1"]))
        resumed = self.finish(self.start_resumed(directory))
        self.assertEqual(resumed.exit_code, 0, resumed.output)


@unittest.skipUnless(can_import("torch"), "python3-torch is not installed")
class Distributed(LocalTest):
    """The same program by the backends gloo and lockstep of torch.distributed."""

    def gradients(self, backend):
        """Of each rank: hash, and values."""
        words = python_words(pathlib.Path(__file__).with_name("python_ddp_program.py"), backend)
        run = self.run_job(command_manifest(words, name="ddp", workers=3))
        self.assertEqual(run.exit_code, 0, run.output)
        found = []
        for rank in range(3):
            log = run.pod_log(f"ddp-worker-{rank}")
            self.assertIn("calls are right", log)
            self.assertIn("the end is right", log)
            digest, values = re.search(r"gradients (\w+) (.*)", log).groups()
            found.append((digest, [float(value) for value in values.split()]))
        return found

    def test_gradients_are_equal_on_all_ranks_and_those_of_gloo(self):
        ours = self.gradients("lockstep")
        self.assertEqual(ours, [ours[0]] * 3)
        for own, gloos in zip(ours[0][1], self.gradients("gloo")[0][1]):
            self.assertAlmostEqual(own, gloos, delta=1e-6)  # sums in another order


if __name__ == "__main__":
    unittest.main(verbosity=2)
