"""What lockstep.keras.Report tells when: Keras's calls are made by hand here, tests/peers has the
real ones."""

import logging
import unittest
from unittest import mock

from lockstep.errors import InvalidArgument, LockstepError
from lockstep.horovod import process
from lockstep.horovod.world import World
from lockstep.keras import Report
from lockstep.library import Phase


class Kept:
    """Takes reports, and keeps them."""

    def __init__(self):
        self.reports = []

    def report(self, progress):
        self.reports.append(progress)


class Optimizer:
    def __init__(self, iterations):
        self.iterations = iterations


class Model:
    def __init__(self, iterations):
        self.optimizer = Optimizer(iterations)


def begun(iterations=0, epochs=2, steps=4, **arguments):
    kept = Kept()
    report = Report(session=kept, **arguments)
    report.set_params({"epochs": epochs, "steps": steps})
    model = Model(0)
    report.set_model(model)
    report.on_train_begin()
    model.optimizer.iterations = iterations  # as by a callback that restores after this one
    return report, kept.reports


def batches(report, epoch, numbers, taken=1, loss=0.5):
    report.on_epoch_begin(epoch)
    for batch in numbers:
        report.on_train_batch_begin(batch)
        report.on_train_batch_end(batch + taken - 1, {"loss": loss, "accuracy": 0.75})
    report.on_epoch_end(epoch, {})


class KerasReport(unittest.TestCase):
    def test_reports_by_the_session_of_horovod_where_that_is_open(self):
        kept = Kept()
        world = World(kept, None, 1.0)
        with mock.patch.object(process, "_world", world), \
                mock.patch("lockstep.keras.Reporter", side_effect=LockstepError("open already")):
            report = Report()
            report.set_model(Model(0))
            report.on_train_begin()
            batches(report, 0, range(2))
            report.on_train_end()
        self.assertEqual([(one.step, one.loss) for one in kept.reports], [(1, 0.5), (2, 0.5)])

    def test_tells_each_step_of_all_epochs(self):
        report, told = begun()
        for epoch in range(2):
            batches(report, epoch, range(4))
        self.assertEqual([one.step for one in told], list(range(1, 9)))
        self.assertEqual({one.steps_total for one in told}, {8})
        self.assertEqual([one.data_epoch for one in told], [0] * 4 + [1] * 4)
        self.assertEqual((told[0].loss, told[0].accuracy), (0.5, 0.75))
        self.assertEqual({one.phase for one in told}, {Phase.TRAINING})

    def test_a_metric_that_is_no_share_is_not_told_as_accuracy(self):
        report, told = begun()
        report.on_epoch_begin(0)
        for batch, accuracy in enumerate((87.5, -1.0, float("nan"), 1.0)):
            report.on_train_batch_begin(batch)
            report.on_train_batch_end(batch, {"loss": 0.5, "accuracy": accuracy})
        self.assertEqual([one.accuracy for one in told], [None, None, None, 1.0])

    def test_goes_on_where_a_backup_has_brought_the_optimizer(self):
        report, told = begun(iterations=6)
        batches(report, 1, [2, 3])
        self.assertEqual([(one.step, one.steps_total) for one in told], [(7, 8), (8, 8)])

    def test_batches_that_keras_takes_at_once_count_each(self):
        report, told = begun()
        batches(report, 0, [0, 2], taken=2)
        self.assertEqual([one.step for one in told], [2, 4])

    def test_a_second_run_adds_to_the_first(self):
        report, told = begun(epochs=1)
        batches(report, 0, range(4))
        report.on_train_end()
        report.model.optimizer.iterations = 4
        report.on_train_begin()
        batches(report, 0, range(4))
        self.assertEqual((told[-1].step, told[-1].steps_total), (8, 8))

    def test_evaluation_keeps_the_figures(self):
        report, told = begun()
        batches(report, 0, [0])
        report.on_test_begin()
        report.on_test_batch_end(0, {})
        report.on_test_end()
        self.assertEqual([one.phase for one in told],
                         [Phase.TRAINING, Phase.EVALUATING, Phase.TRAINING])
        self.assertEqual({(one.step, one.loss) for one in told}, {(1, 0.5)})

    def test_a_length_that_keras_does_not_know_is_not_told(self):
        for unknown in (None, -1):
            report, told = begun(steps=unknown)
            batches(report, 0, [0])
            self.assertIsNone(told[0].steps_total)

    def test_samples_are_those_of_all_ranks(self):
        with mock.patch.dict("os.environ", {"WORLD_SIZE": "4"}):
            report, told = begun(samples_per_step=32)
            batches(report, 0, [0])
        self.assertEqual(told[0].sample_count, 8)
        self.assertGreater(told[0].samples_per_second, 0)
        report, told = begun()
        batches(report, 0, [0])
        self.assertIsNone(told[0].samples_per_second)

    def test_the_rate_is_the_mean_of_all_batches_but_the_first(self):
        seconds = iter([0, 100, 102, 103, 1000, 1000.5])  # begin, 3 batches, evaluated, a batch
        with mock.patch("time.monotonic", lambda: next(seconds)):
            report, told = begun(samples_per_step=30)
            batches(report, 0, range(3))
            report.on_test_end()
            batches(report, 1, [0])
        rates = [one.samples_per_second for one in told if one.phase == Phase.TRAINING]
        self.assertEqual(rates[0], 0.3)
        self.assertEqual(rates[-1], 90 / 3.5)

    def test_refuses_no_samples(self):
        with self.assertRaisesRegex(InvalidArgument, "samples_per_step: 0 found"):
            Report(samples_per_step=0)

    def test_says_once_that_there_is_no_job(self):
        from lockstep.errors import NoJob, Status
        report = Report()
        report.set_model(Model(0))
        problem = NoJob("this process belongs to no job", Status.NO_JOB)
        with mock.patch("lockstep.keras.Reporter", side_effect=problem):
            with self.assertLogs("lockstep", logging.WARNING) as logs:
                report.on_train_begin()
        self.assertEqual(len(logs.output), 1)
        self.assertIn("belongs to no job", logs.output[0])
        batches(report, 0, [0])


if __name__ == "__main__":
    unittest.main()
