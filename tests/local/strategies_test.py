"""One job under every strategy: the same training, and one checkpoint that fits all."""

import dataclasses
import json
import shutil
import unittest

from harness import BIN, LocalTest, samples_after, training_manifest
from lanes import long

STEPS = 50
STEPS_SAVED = 20

# Relative: the bound that the sums' other order must stay within.
LOSS_TOLERANCE = 1e-5


def assert_same(test, summary, whole, layout):
    for name in ("loss", "testLoss"):
        test.assertAlmostEqual(summary[name], whole[name], delta=LOSS_TOLERANCE * whole[name],
                               msg=f"{name}: {layout}")


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a job is spread out."""

    strategy: str
    workers: int
    replicas: int = 1
    processes: int = 1
    ps: int = 0

    def manifest(self, steps):
        text = training_manifest(workers=self.workers, steps=steps, every_steps=0)
        text = text.replace("spec:\n", f"spec:\n  strategy: {self.strategy}\n", 1)
        text = text.replace("  - name: worker\n",
                            f"  - name: worker\n    processes: {self.processes}\n")
        if self.ps > 0:
            role = f"  - name: ps\n    replicas: {self.ps}\n"
            text = text.replace("  runPolicy:", f"{role}  runPolicy:", 1)
        text = text.replace("    seed:", f"    replicas: {self.replicas}\n    seed:")
        hidden = "      - {type: Dense, units: 32, activation: relu}\n"
        return text.replace(hidden, hidden + "      - {type: Dropout, rate: 0.3}\n")

    def __str__(self):
        parameter_servers = f", {self.ps} ps" if self.ps > 0 else ""
        return (f"{self.strategy} {self.workers} x {self.processes} x {self.replicas}"
                f"{parameter_servers}")


LAYOUTS = [
    Layout("Mirrored", 1, 2),
    Layout("MultiWorkerMirrored", 1),
    Layout("MultiWorkerMirrored", 2),
    Layout("MultiWorkerMirrored", 3),
    Layout("MultiWorkerMirrored", 2, 2),
    Layout("MultiWorkerMirrored", 2, processes=2),
    Layout("CentralStorage", 1, 2),
]

# Its updates come in no order that two runs share.
ASYNCHRONOUS = Layout("ParameterServer", 2, ps=2)


class Strategies(LocalTest):
    engine = None

    def train(self, layout, steps, checkpoints, resumed_at=None):
        run = self.run_job(layout.manifest(steps), "--set",
                           f"training.checkpoint.directory={checkpoints}")
        self.assert_trained(run)
        self.assertEqual(run.summary["steps"], steps, layout)
        self.assertEqual(run.summary["samplesConsumed"], samples_after(steps), layout)
        log = run.pod_log("quick-worker-0")
        said = f"resumed from checkpoint step={resumed_at}"
        self.assertEqual(said in log, resumed_at is not None, layout)
        # Ranks of one host sum gradients where they lie.
        lend = layout.ps == 0 and layout.workers * layout.processes > 1
        self.assertEqual('backend_detail="gradients in shared memory"' in log, lend, layout)
        return run.summary

    def resume(self, layout, saved):
        """The result of STEPS steps of which the first are those of the checkpoint in `saved`."""
        mine = self.scratch / "mine"
        shutil.copytree(saved, mine)
        summary = self.train(layout, STEPS, mine, resumed_at=STEPS_SAVED)
        shutil.rmtree(mine)
        return summary

    @long
    def test_checkpoint_of_each_is_resumed_by_the_next_and_training_is_the_same(self):
        """Strategies.CheckpointOfOneFitsAll has all pairs, in one process."""
        whole = self.train(LAYOUTS[1], STEPS, self.scratch / "whole")
        for number, saver in enumerate(LAYOUTS):
            saved = self.scratch / f"saved-{number}"
            self.train(saver, STEPS_SAVED, saved)
            resumer = LAYOUTS[(number + 1) % len(LAYOUTS)]
            assert_same(self, self.resume(resumer, saved), whole, f"{saver}, then {resumer}")
        self.resume(ASYNCHRONOUS, saved)

    def test_checkpoint_of_parameter_servers_is_resumed_by_each_and_training_is_the_same(self):
        saved = self.scratch / "saved"
        self.train(ASYNCHRONOUS, STEPS_SAVED, saved)
        self.resume(ASYNCHRONOUS, saved)
        whole = self.resume(LAYOUTS[1], saved)
        for resumer in (LAYOUTS[0], LAYOUTS[3], LAYOUTS[6]):
            assert_same(self, self.resume(resumer, saved), whole, resumer)


class SkippedSteps(LocalTest):
    """Those that changed nothing in Float16 are no updates of an optimizer, whoever goes on."""

    engine = None

    def train(self, layout, steps, precision, checkpoints):
        """Labels of up to 9 in a batch of 8 times 2^16 are above what Float16 can hold."""
        fields = []
        for change in (f"checkpoint.directory={checkpoints}", f"precision={precision}",
                       "globalBatchSize=8", "loss={type: MeanSquaredError}",
                       "model.layers=[{type: Flatten}, {type: Dense, units: 1}]"):
            fields += ["--set", f"training.{change}"]
        run = self.run_job(layout.manifest(steps), *fields)
        self.assert_trained(run)
        self.assertEqual(run.summary["steps"], steps, layout)
        return run.summary

    def test_parameter_servers_count_on_from_the_updates_before(self):
        saved = self.scratch / "saved"
        skipped = self.train(LAYOUTS[1], STEPS_SAVED, "Float16", saved)["stepsSkipped"]
        self.assertGreater(skipped, 0)
        found = []
        for layout in (LAYOUTS[1], Layout("ParameterServer", 1, ps=1)):
            mine = self.scratch / layout.strategy
            shutil.copytree(saved, mine)
            found.append(self.train(layout, STEPS, "Float32", mine))
            self.assertEqual(found[-1]["stepsSkipped"], skipped, layout)
        for name in ("loss", "testLoss"):
            expected, own = (summary[name] for summary in found)
            self.assertAlmostEqual(own, expected, delta=LOSS_TOLERANCE * expected, msg=name)


class Devices(LocalTest):
    engine = None

    def test_gpus_that_are_not_there_are_refused_by_name(self):
        run = self.run_job(training_manifest(workers=1),
                           "--set", 'training.devices=["7", "GPU-none"]')
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertRegex(run.output,
                         r"spec\.training\.devices: 7, GPU-none not found: 2 GPUs requested, "
                         r"(none|\d+) visible")

    def train_over(self, runtime, *arguments):
        template = {"spec": {"containers": [{"name": "trainer", "env": [
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-a,GPU-b"}]}]}}
        manifest = training_manifest(workers=2, steps=STEPS).replace(
            "    replicas: 2\n", f"    replicas: 2\n    template: {json.dumps(template)}\n")
        run = self.run_job(manifest, "--runtime", str(runtime), *arguments)
        if " requested, " in run.output:
            self.skipTest("this machine has GPUs and their driver")
        self.assert_trained(run)
        return run.summary

    # The engine for GPUs has a double here, whose numbers the host cannot look at.
    def test_job_that_names_devices_trains_a_replica_on_each(self):
        runtime = self.scratch / "lockstep-runtime"
        shutil.copy(BIN / "lockstep-runtime", runtime)
        plugins = BIN.parent / "trainer-runtime/engine/plugins"
        for name, double in (("", "reference"), ("-cuda", "device")):
            file = plugins / f"liblockstep_test_{double}_plugin.so"
            self.assertTrue(file.exists(), f"build the target lockstep_test_{double}_plugin")
            (self.scratch / f"liblockstep-engine{name}.so").symlink_to(file)
        on_host = self.train_over(runtime)
        for devices in ('["GPU-b"]', '["1", "GPU-a"]'):
            on_devices = self.train_over(runtime, "--set", f"training.devices={devices}")
            assert_same(self, on_devices, on_host, devices)


if __name__ == "__main__":
    unittest.main()
