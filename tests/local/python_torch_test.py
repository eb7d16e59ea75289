"""lockstep.torch: ranks are killed at each place of a step. The others keep their processes, no
sample is lost or used twice, and the weights come out as ever. python_torch_soak.py has more."""

import json
import pathlib
import re
import unittest

from harness import LocalTest, command_manifest
from lanes import long
from python_case import can_import, python_words
from python_torch_case import EPOCHS, SAMPLES, STEPS, TorchCase


class Torch(TorchCase):
    known_ends = {}  # of undisturbed runs, by the number of workers

    def undisturbed_ends(self, workers):
        if workers not in self.known_ends:
            self.known_ends[workers] = self.ends(self.train(workers=workers), workers=workers)
        return self.known_ends[workers]

    def test_ranks_killed_at_each_place_of_a_step(self):
        run = self.train()
        undisturbed = self.ends(run)
        self.known_ends.setdefault(3, undisturbed)
        self.assertIn(f"after {STEPS} steps: lost 0 repeated 0 consumed {EPOCHS * SAMPLES} ",
                      undisturbed)
        self.check_checkpoint(run)
        disturbed = self.train("reduce:1:4", "update:2:9", "checkpoint:0:15")
        self.assertEqual(self.ends(disturbed), undisturbed)

    def check_checkpoint(self, run):
        """The newest is laid out as docs/reference/checkpoints.md says."""
        folder = sorted((run.directory / "checkpoints").glob("step-*"))[-1]
        self.assertEqual(folder.name, f"step-{STEPS:08}")
        raw = (folder / "tensors.safetensors").read_bytes()
        header = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])
        self.assertEqual(header["model/0.weight"]["shape"], [8, 1, 3, 3])
        self.assertEqual(header["lockstep/ledger"]["dtype"], "U8")
        self.assertIn("optimizer/state/0/exp_avg", header)

    def stop_in_the_middle(self, manifest, workers=2):
        """Returns the run's folder, and the step after which all have left, which is saved."""
        started = self.start(manifest)
        _, directory, _ = started
        self.wait_for(lambda: (directory / "checkpoints" / "step-00000005").exists())
        run = self.stop(started)
        self.assertEqual(run.exit_code, 130, run.output)
        stops = [re.findall(r"asked to stop after (\d+) steps", self.log(directory, rank))
                 for rank in range(workers)]
        self.assertEqual(stops, [stops[0]] * workers)
        self.assertEqual(len(stops[0]), 1)
        self.assertEqual(self.newest(directory), f"step-{int(stops[0][0]):08}")
        return directory, int(stops[0][0])

    @long
    def test_all_stop_after_the_same_step_and_a_later_run_goes_on_from_there(self):
        """Workers of a loader are in the way of neither the stop nor the end."""
        directory, step = self.stop_in_the_middle(
            self.manifest(variables=["LOADER_WORKERS=1"]), workers=3)
        resumed = self.finish(self.start_resumed(directory))
        self.assertEqual(resumed.exit_code, 0, resumed.output)
        self.assertEqual(self.steps_met(directory, 0)[-1], step)
        self.assertEqual(self.all_ends(resumed), {self.undisturbed_ends(workers=3)})

    def resume(self, directory, step):
        """Goes on from `step` to the end; the weights are those of an undisturbed run."""
        self.assertEqual(self.newest(directory), f"step-{step:08}")
        resumed = self.finish(self.start_resumed(directory))
        self.assertEqual(resumed.exit_code, 0, resumed.output)
        self.assertEqual(self.steps_met(directory, 0)[-1], step)
        self.assertEqual(self.all_ends(resumed), {self.undisturbed_ends(workers=2)})

    def newest(self, directory):
        return sorted((directory / "checkpoints").glob("step-*"))[-1].name

    @long
    def test_a_stop_while_a_lost_rank_is_replaced_keeps_all_steps(self):
        for lost, left in ((1, 0), (0, 1)):
            started = self.start(self.manifest(f"after:{lost}:7", workers=2))
            _, directory, _ = started
            said = "joining a new rendezvous after step 8"
            self.wait_for(lambda: said in self.log(directory, left))
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
        directory, _ = self.stop_in_the_middle(self.manifest(
            launcher=self.launcher(channel), variables=["LOADER_WORKERS=1"], workers=2))
        for rank in range(2):
            self.assertRegex(self.log(directory, rank), "ended when it was asked to.*exit code 42")

    def test_a_program_whose_launcher_dies_of_the_stop_saves_and_was_told_what_it_lacks(self):
        directory, _ = self.stop_in_the_middle(
            self.manifest(launcher=self.launcher(""), workers=2))
        for rank in range(2):
            log = self.log(directory, rank)
            self.assertRegex(log, r"closed the descriptor to lockstep-runtime, .*pass_fds=\[\d+\]")
            self.assertRegex(log, "ended when it was asked to.*killed by SIGTERM")

    def test_a_stop_that_cannot_be_saved_says_what_to_put_right(self):
        started = self.start(self.manifest(epochs=1000, workers=2))
        _, directory, _ = started
        self.wait_for(lambda: (directory / "checkpoints" / "step-00000005").exists())
        (directory / "checkpoints").rename(directory / "removed")
        run = self.stop(started)
        self.assertEqual(run.exit_code, 1, run.output)
        problem = (f"No such file or directory: {directory}/checkpoints; restore what was removed "
                   "or unmounted there; the job needs the folder while it runs")
        self.assertEqual(run.summary["reason"], "stopped by SIGINT, and the checkpoint could not "
                         f"be written by own-worker-0: {problem}")
        self.assertRegex(run.output, rf"own-worker-0.*{problem}")
        self.assertRegex(run.summary["pods"][0]["message"],
                         rf"^asked to stop after \d+ steps, but they are not saved: {problem}$")


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
            for part in ("calls", "calls between ranks", "groups"):
                self.assertIn(f"{part} are right", log)
            self.assertIn("the end is right", log)
            digest, values = re.search(r"gradients (\w+) (.*)", log).groups()
            found.append((digest, [float(value) for value in values.split()]))
        return found

    def test_gradients_are_equal_on_all_ranks_and_those_of_gloo(self):
        ours = self.gradients("lockstep")
        self.assertEqual(ours, [ours[0]] * 3)
        for own, gloos in zip(ours[0][1], self.gradients("gloo")[0][1]):
            self.assertAlmostEqual(own, gloos, delta=1e-6)  # sums in another order

    @long
    def test_a_rank_that_is_lost_in_a_call_of_gloos_is_met_again(self):
        for call in ("dist.recv(torch.empty(1), 1)",
                     "dist.all_reduce(torch.ones(1), group=pair)"):
            with self.subTest(call):
                code = ("import os, signal, torch, torch.distributed as dist\n"
                        "import lockstep.torch.distributed\n"
                        "dist.init_process_group('lockstep')\n"
                        "pair = dist.new_group([0, 1])\n"
                        "process = tuple(os.environ['LOCKSTEP_' + name]\n"
                        "                for name in ('POD', 'PROCESS_START'))\n"
                        "if process == ('ddp-worker-1', '0'):\n"
                        "    os.kill(os.getpid(), signal.SIGKILL)\n"
                        "if process == ('ddp-worker-0', '0'):\n"
                        f"    {call}\n"
                        "dist.destroy_process_group()\n")
                run = self.run_job(command_manifest(
                    python_words("-c", code), name="ddp", backoff_limit=1))
                self.assertEqual(run.exit_code, 0, run.output)
                self.assertIn("(exit code 75)", run.pod_log("ddp-worker-0"))

    def test_what_torch_finds_by_a_groups_name_or_device(self):
        code = ("import tempfile, torch, torch.distributed as dist, lockstep.torch.distributed\n"
                "from torch.distributed.device_mesh import init_device_mesh\n"
                "from torch.distributed.fsdp import fully_shard\n"
                "from torch.distributed.tensor import Shard, distribute_tensor\n"
                "import torch.distributed.checkpoint as checkpoint\n"
                "dist.init_process_group('lockstep')\n"
                "mesh = init_device_mesh('cpu', (2,))\n"
                "whole = torch.arange(12.).reshape(6, 2)\n"
                "parts = distribute_tensor(whole, mesh, [Shard(0)])\n"
                "assert torch.equal(parts.full_tensor(), whole)\n"
                "model = fully_shard(torch.nn.Linear(6, 2), mesh=mesh)\n"
                "model(torch.ones(2, 6)).sum().backward()\n"
                "folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]\n"
                "dist.broadcast_object_list(folder)\n"
                "checkpoint.save({'parts': parts}, checkpoint_id=folder[0])\n"
                "read = {'parts': distribute_tensor(whole * 0, mesh, [Shard(0)])}\n"
                "checkpoint.load(read, checkpoint_id=folder[0])\n"
                "assert torch.equal(read['parts'].full_tensor(), whole)\n"
                "dist.destroy_process_group()\n")
        if not can_import("torch.distributed.device_mesh"):
            self.skipTest("this torch has no DTensor")
        run = self.run_job(command_manifest(
            ["/usr/bin/env", f"TMPDIR={self.scratch}", *python_words("-c", code)], name="ddp"))
        self.assertEqual(run.exit_code, 0, run.output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
