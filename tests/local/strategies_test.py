"""One job under every strategy: the same training, and one checkpoint that fits all."""

import dataclasses
import shutil
import unittest

from harness import LocalTest, training_manifest

STEPS = 50
STEPS_SAVED = 20

# Relative: the bound that the sums' other order must stay within.
LOSS_TOLERANCE = 1e-5


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a job is spread out."""

    strategy: str
    workers: int
    replicas: int = 1
    processes: int = 1

    def manifest(self, steps):
        text = training_manifest(workers=self.workers, steps=steps, every_steps=0)
        text = text.replace("spec:\n", f"spec:\n  strategy: {self.strategy}\n", 1)
        text = text.replace("  - name: worker\n",
                            f"  - name: worker\n    processes: {self.processes}\n")
        text = text.replace("    seed:", f"    replicas: {self.replicas}\n    seed:")
        hidden = "      - {type: Dense, units: 32, activation: relu}\n"
        return text.replace(hidden, hidden + "      - {type: Dropout, rate: 0.3}\n")

    def __str__(self):
        return f"{self.strategy} {self.workers} x {self.processes} x {self.replicas}"


LAYOUTS = [
    Layout("Mirrored", 1, 2),
    Layout("MultiWorkerMirrored", 1),
    Layout("MultiWorkerMirrored", 2),
    Layout("MultiWorkerMirrored", 3),
    Layout("MultiWorkerMirrored", 2, 2),
    Layout("MultiWorkerMirrored", 2, processes=2),
    Layout("CentralStorage", 1, 2),
]


class Strategies(LocalTest):
    def train(self, layout, steps, checkpoints):
        run = self.run_job(layout.manifest(steps), "--set",
                           f"training.checkpoint.directory={checkpoints}")
        self.assert_trained(run)
        self.assertEqual(run.summary["steps"], steps, layout)
        return run.summary

    def test_checkpoint_of_each_is_resumed_by_each_and_training_is_the_same(self):
        whole = self.train(LAYOUTS[1], STEPS, self.scratch / "whole")
        for number, saver in enumerate(LAYOUTS):
            saved = self.scratch / f"saved-{number}"
            self.train(saver, STEPS_SAVED, saved)
            for resumer in LAYOUTS:
                mine = self.scratch / "mine"
                shutil.copytree(saved, mine)
                summary = self.train(resumer, STEPS, mine)
                shutil.rmtree(mine)
                for name in ("loss", "testLoss"):
                    self.assertAlmostEqual(summary[name], whole[name],
                                           delta=LOSS_TOLERANCE * whole[name],
                                           msg=f"{name}: {saver}, then {resumer}")


class Devices(LocalTest):
    def test_gpus_that_are_not_there_are_refused_by_name(self):
        run = self.run_job(training_manifest(workers=1),
                           "--set", 'training.devices=["7", "GPU-none"]')
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertRegex(run.output,
                         r"spec\.training\.devices: 7, GPU-none not found: 2 GPUs asked for, "
                         r"(none|\d+) visible")


if __name__ == "__main__":
    unittest.main()
