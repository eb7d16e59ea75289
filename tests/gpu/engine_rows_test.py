"""The rows of the engine, as far as they can be tried without a GPU: over the engine for CPUs, with
the PyTorch that is here. What they measure of a GPU is seen on one only."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import engine_rows
import kill_row
import unchanged_row

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", REPOSITORY / "build/dev/bin")).resolve()
PROGRAMS = BIN.parent / "gpu"
PLUGIN = BIN / "liblockstep-engine.so"
DIGITS = REPOSITORY / "examples" / "data" / "mnist"

try:
    import torch
except ImportError:
    torch = None


def told(work):
    """(rows, whether all bars are held) of what `work` prints."""
    rows = engine_rows.Rows()
    with contextlib.redirect_stdout(io.StringIO()) as text:
        work(rows)
    return [line.split("\t") for line in text.getvalue().splitlines()], rows.is_held


class WordsTest(unittest.TestCase):
    def test_without_an_engine_each_row_says_why(self):
        rows, is_held = told(lambda rows: rows.none("no\tGPU"))
        self.assertFalse(is_held)
        self.assertEqual(len(rows), 15)
        self.assertEqual({tuple(row[1:]) for row in rows}, {("no GPU", "", "not run")})

    def test_speed_is_beside_eager_pytorch(self):
        said = {"msPerStep": [2.0, 1.0, 3.0]}
        network = mock.Mock()
        network.name = "line"
        for eager, is_right in ((4.0, True), (3.9, False)):
            with mock.patch.object(engine_rows, "measure_torch",
                                   side_effect=lambda name, compiled: 1.0 if compiled else eager):
                rows, is_held = told(lambda rows: engine_rows.speed_rows(rows, network, said))
            self.assertEqual(is_held, is_right, rows)
            self.assertIn(f"eager {eager:.3f} ({eager / 2:.2f}x), torch.compile 1.000 (0.50x)",
                          rows[0][1])

    def test_a_compiler_that_hangs_costs_its_own_figure_only(self):
        def measure(name, compiled):
            if compiled:
                raise subprocess.TimeoutExpired("python3", 1)
            return 4.0

        network = mock.Mock()
        network.name = "line"
        with mock.patch.object(engine_rows, "measure_torch", side_effect=measure):
            rows, is_held = told(
                lambda rows: engine_rows.speed_rows(rows, network, {"msPerStep": [1.0]}))
        self.assertTrue(is_held)
        self.assertIn("torch.compile: Command 'python3' timed out", rows[0][1])

    def test_a_graph_is_what_the_engine_says_of_it(self):
        for notices, words in (([], "it says nothing of one"), (["steps are captured"],) * 2):
            rows, _ = told(lambda rows, notices=notices: engine_rows.graph_row(
                rows, {"notices": notices, "isGuarded": True}))
            self.assertEqual(rows[0][1], f"{'; '.join(notices) or words}; update on the device")

    def test_a_bucket_that_is_late_misses_the_bar(self):
        said = {"msPerStep": [2.0, 1.0], "late": [0, 0], "buckets": [7, 8], "isEqual": True,
                "notices": [[], ["steps are one graph"]]}
        for wrong, is_right in (({}, True), ({"late": [0, 1]}, False), ({"isEqual": False}, False)):
            engine = mock.Mock()
            engine.run.return_value = ({"listened": said | wrong}, None)
            rows, is_held = told(lambda rows, engine=engine: engine_rows.listened_row(
                rows, engine, mock.Mock()))
            self.assertEqual(is_held, is_right, rows)
            self.assertIn("of 15 buckets late; 1.000 ms a step, without 2.000; steps are one",
                          rows[0][1])

    def test_batches_that_came_ahead_and_change_a_bit_miss_the_bar(self):
        for is_equal in (True, False):
            engine = mock.Mock()
            engine.run.return_value = ({"fed": {"msPerStep": [2.0, 1.0], "isEqual": is_equal}},
                                       None)
            rows, is_held = told(lambda rows, engine=engine: engine_rows.fed_row(
                rows, engine, mock.Mock()))
            self.assertEqual(is_held, is_equal, rows)
            self.assertIn("1.000 ms a step, each before its step 2.000", rows[0][1])

    def test_pytorch_that_fails_is_told_in_its_words(self):
        with mock.patch.object(sys, "executable", "/bin/false"), \
                self.assertRaisesRegex(engine_rows.Failed, "ended with code 1"):
            engine_rows.measure_torch("line", compiled=False)


@unittest.skipIf(torch is None, "PyTorch is not here")
class EngineTest(unittest.TestCase):
    """Over liblockstep-engine.so, on the CPU."""

    def setUp(self):
        self.assertTrue((PROGRAMS / "lockstep-gpu-engine").exists(), "build lockstep_gpu")
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.scratch = pathlib.Path(self.folder.name)
        self.engine = engine_rows.Engine(PROGRAMS, PLUGIN, self.scratch)

    def few(self):
        return mock.patch.multiple(engine_rows, PARITY_STEPS=10, ROUNDS=1, TIMED_STEPS=2)

    def test_every_network_takes_the_steps_of_pytorch(self):
        import networks
        for network in networks.TUTORIALS:
            with self.few():
                rows, is_held = told(
                    lambda rows, network=network: engine_rows.parity_rows(rows, self.engine,
                                                                          network))
            self.assertTrue(is_held, rows)

    def test_another_model_misses_the_bar(self):
        import networks
        line = networks.TUTORIALS[2]
        with self.few(), mock.patch.object(line, "loss", lambda found, wanted: 2 * found.sum()):
            rows, is_held = told(
                lambda rows: engine_rows.parity_rows(rows, self.engine, line))
        self.assertFalse(is_held, rows)

    def test_16_bits_are_beside_32(self):
        import networks
        dense = networks.TUTORIALS[1]
        with self.few():
            exact, _ = self.engine.run(dense, "Float32", "--steps", 10)
            rows, is_held = told(
                lambda rows: engine_rows.mixed_rows(rows, self.engine, dense, exact))
        self.assertTrue(is_held, rows)
        self.assertEqual(len(rows), 2)

    def test_buckets_are_copied_beside_steps(self):
        import networks
        rows, is_held = told(
            lambda rows: engine_rows.listened_row(rows, self.engine, networks.TUTORIALS[1]))
        self.assertTrue(is_held, rows)
        self.assertRegex(rows[0][1], "^equal bits after 200 steps, 0 of ")

    def test_batches_may_come_ahead_of_their_steps(self):
        import networks
        rows, is_held = told(
            lambda rows: engine_rows.fed_row(rows, self.engine, networks.TUTORIALS[1]))
        self.assertTrue(is_held, rows)
        self.assertRegex(rows[0][1], "^equal bits after 200 steps; ")

    def test_snapshots_are_written_beside_steps(self):
        import networks
        dense = networks.TUTORIALS[1]
        rows, _ = told(lambda rows: engine_rows.snapshot_row(rows, self.engine, dense))
        self.assertRegex(rows[0][1], r"ms stalled, .* ms written beside, 1 MB")

    def test_an_engine_that_is_not_there_is_a_row(self):
        import networks
        engine = engine_rows.Engine(PROGRAMS, self.scratch / "none.so", self.scratch)
        rows, is_held = told(
            lambda rows: engine_rows.parity_rows(rows, engine, networks.TUTORIALS[2]))
        self.assertFalse(is_held)
        self.assertIn("none.so", rows[0][1])

    def test_a_killed_trainer_goes_on_from_its_checkpoint(self):
        seconds, restored = kill_row.measure(BIN / "lockstep-runtime", PLUGIN, self.scratch,
                                             DIGITS, [])
        self.assertGreater(seconds, 0)
        self.assertEqual(restored % kill_row.CHECKPOINT_EVERY, 0)
        self.assertGreater(restored, 0)

    def test_a_trainer_that_cannot_begin_is_told_in_its_words(self):
        with self.assertRaisesRegex(TimeoutError, "GPU-none not found"):
            kill_row.measure(BIN / "lockstep-runtime", PLUGIN, self.scratch, DIGITS,
                             ["GPU-none"])


@unittest.skipIf(torch is None, "python3-torch is not installed")
class UnchangedRowTest(unittest.TestCase):
    """Over gloo. NCCL takes one rank for each GPU."""

    def test_the_killed_rank_is_named(self):
        with tempfile.TemporaryDirectory() as scratch:
            seconds, culprit = unchanged_row.measure(
                BIN / "lockstep-runtime", pathlib.Path(scratch), "gloo")
        self.assertGreater(seconds, 0)
        self.assertEqual(culprit, 1)

    @unittest.skipIf(torch is not None and torch.cuda.device_count() > 1, "there are 2 GPUs")
    def test_one_gpu_is_not_enough(self):
        rows, is_held = told(lambda rows: unchanged_row.print_row(rows, "row", None, None))
        self.assertEqual(rows[0][3], "left out")
        self.assertTrue(is_held)


if __name__ == "__main__":
    unittest.main(verbosity=2)
