"""What Horovod's callbacks do when: Keras's calls are made by hand here, tests/peers has the real
ones."""

import contextlib
import io
import unittest

import numpy as np

from lockstep.errors import InvalidArgument
from lockstep.horovod import callbacks, variables
from lockstep.horovod.host_test import in_ranks, results


class Variable:
    """As much of one of Keras's as is used."""

    def __init__(self, value, name="weight"):
        self.value = np.array(value, np.float32)
        self.name = name

    def numpy(self):
        return self.value

    def assign(self, value):
        assert np.shape(value) == self.value.shape
        self.value[...] = value  # in the memory that `numpy` has given


class Optimizer:
    def __init__(self, rate=1.0, **named):
        self._rate = Variable(rate)
        self.__dict__.update(named)
        self.variables = [self._rate]

    @property
    def learning_rate(self):
        return self._rate

    @learning_rate.setter
    def learning_rate(self, rate):
        self._rate.assign(rate)


class Model:
    built = True

    def __init__(self, rank=0, **named):
        self.optimizer = Optimizer(**named)
        self.weights = [Variable([rank, rank])]
        self.metrics = [Variable(rank, "metric") for _ in range(rank)]
        self.seed = Variable(rank, "seed_generator_state")

    @property
    def variables(self):
        return [*self.weights, *self.metrics, self.seed]


def begun(callback, steps=4, **named):
    callback.model = Model(**named)
    callback.params = {"steps": steps}
    getattr(callback, "on_train_begin", lambda: None)()
    return callback


def rates(callback, epochs, steps=4):
    """The learning rate of each batch of each epoch."""
    found = []
    for epoch in range(epochs):
        callback.on_epoch_begin(epoch)
        found.append([])
        for batch in range(steps):
            callback.on_train_batch_begin(batch)
            found[-1].append(round(float(callback.model.optimizer.learning_rate.numpy()), 4))
            callback.on_train_batch_end(batch)
        callback.on_epoch_end(epoch, {})
    return found


class LearningRate(unittest.TestCase):
    def test_warms_up_batch_by_batch_from_one_ranks_to_all_ranks_share(self):
        def work(rank):
            callback = begun(callbacks.LearningRateWarmup(0.8, warmup_epochs=2, verbose=1))
            return rates(callback, 3)
        with contextlib.redirect_stdout(io.StringIO()) as told:
            found = results(2, work)
        expected = [[0.45, 0.5, 0.55, 0.6], [0.65, 0.7, 0.75, 0.8], [0.8] * 4]
        self.assertEqual(found, [expected] * 2)
        self.assertEqual(told.getvalue(),  # rank 0's
                         "\nEpoch 2: finished gradual learning rate warmup to 0.8.\n")

    def test_no_epochs_of_warm_up_leave_the_rate(self):
        callback = begun(callbacks.LearningRateWarmup(0.8, warmup_epochs=0), rate=0.5)
        self.assertEqual(rates(callback, 2), [[0.5] * 4] * 2)

    def test_multiplies_within_its_epochs_only(self):
        callback = begun(callbacks.LearningRateSchedule(
            2.0, lambda epoch: 10 ** -epoch, start_epoch=1, end_epoch=3))
        self.assertEqual(rates(callback, 4, 2), [[1.0] * 2, [0.2] * 2, [0.02] * 2, [0.02] * 2])

    def test_a_number_is_raised_to_the_epochs_since_the_start(self):
        callback = begun(callbacks.LearningRateSchedule(1.0, 0.5, start_epoch=1))
        self.assertEqual(rates(callback, 3, 1), [[1.0], [1.0], [0.5]])

    def test_is_told_at_the_end_of_an_epoch(self):
        logs = {}
        begun(callbacks.LearningRateSchedule(1.0, 0.5), rate=0.25).on_epoch_end(0, logs)
        self.assertEqual(logs, {"lr": 0.25})

    def test_what_a_compiled_momentum_has_gathered_follows_the_rate_once(self):
        gathered = [Variable([8.0, 4.0])]
        callback = begun(
            callbacks.LearningRateSchedule(1.0, 0.5), momentum=0.9, momentums=gathered)
        rates(callback, 2)
        np.testing.assert_allclose(gathered[0].numpy(), [4.0, 2.0])
        self.assertEqual(callback.model.optimizer.momentum, 0.9)
        gathered = [Variable([8.0])]
        callback = begun(callbacks.LearningRateSchedule(1.0, 0.5, momentum_correction=False),
                         momentum=0.9, momentums=gathered)
        rates(callback, 2)
        self.assertEqual(gathered[0].numpy().tolist(), [8.0])

    def test_a_momentum_that_is_a_variable_is_another_one_for_a_batch(self):
        callback = begun(callbacks.LearningRateSchedule(1.0, 0.5), momentum=Variable(0.8))
        callback.on_epoch_begin(1)
        callback.on_train_batch_begin(0)
        self.assertAlmostEqual(float(callback.model.optimizer.momentum), 0.4)
        callback.on_train_batch_end(0)
        self.assertAlmostEqual(float(callback.model.optimizer.momentum), 0.8)

    def test_what_cannot_be_is_refused(self):
        with self.assertRaisesRegex(InvalidArgument, "initial_lr: None found"):
            callbacks.LearningRateSchedule(None, 1.0)
        with self.assertRaisesRegex(InvalidArgument, "steps_per_epoch: -4 found"):
            callbacks.LearningRateSchedule(1.0, 0.5, steps_per_epoch=-4)
        for epochs in (-1, -0.5, float("nan")):
            with self.assertRaisesRegex(
                    InvalidArgument, f"warmup_epochs: {epochs} found, expected 0 or more"):
                callbacks.LearningRateWarmup(1.0, warmup_epochs=epochs)
        with self.assertRaisesRegex(InvalidArgument, "steps_per_epoch: None found"):
            begun(callbacks.LearningRateWarmup(1.0), steps=None)


class Exchange(unittest.TestCase):
    def test_metrics_become_the_means_of_all_ranks(self):
        def work(rank):
            # Their order is another one on each rank, as it may be.
            logs = dict(sorted({"loss": 1.0 + rank, "accuracy": 0.5 * rank}.items(),
                               reverse=rank == 1))
            callbacks.MetricAverage().on_epoch_end(0, logs)
            return logs
        self.assertEqual(results(2, work), [{"loss": 1.5, "accuracy": 0.25}] * 2)

    def test_other_metrics_are_told(self):
        for error in in_ranks(2, lambda rank: callbacks.MetricAverage().on_epoch_end(
                0, {f"loss{rank}": 1.0})):
            self.assertIn('"metrics loss1"', str(error))

    def test_the_first_batch_ends_with_one_model_and_optimizer_once(self):
        def work(rank):
            callback = callbacks.BroadcastGlobalVariables(1)
            callback.model = Model(rank, rate=rank + 1)  # with other metrics on each rank
            callback.on_train_batch_end(0)
            found = [one.numpy().tolist() for one in callback.model.variables]
            callback.model.weights[0].assign([rank, rank])
            callback.on_train_batch_end(1)
            return (found[0], found[-1], callback.model.optimizer.learning_rate.numpy().item(),
                    callback.model.weights[0].numpy().tolist())
        self.assertEqual(results(2, work), [([1, 1], 1, 2.0, [rank, rank]) for rank in range(2)])

    def test_devices_other_than_the_host_are_refused(self):
        callbacks.check_device("device", "/cpu:0")
        with self.assertRaisesRegex(InvalidArgument, "device: '/gpu:0' found"):
            callbacks.MetricAverage(device="/gpu:0")


class Kept:
    """A state that counts its commits."""

    epoch = 3
    batch = 0
    commits = 0

    def commit(self):
        self.commits += 1


class Elastic(unittest.TestCase):
    def test_commits_after_so_many_batches_and_each_epoch(self):
        state = Kept()
        callback = callbacks.CommitState(state, batches_per_commit=2)
        callback.on_train_begin()
        counts = []
        for batch in range(5):
            callback.on_train_batch_end(batch)
            counts.append(state.commits)
        callback.on_epoch_end(0)
        self.assertEqual((counts, state.commits), ([0, 1, 1, 2, 2], 3))
        callback.on_train_begin()  # as after a loss
        callback.on_train_batch_end(0)
        self.assertEqual(state.commits, 3)
        with self.assertRaisesRegex(InvalidArgument, "batches_per_commit: 0 found"):
            callbacks.CommitState(state, 0)

    def test_epochs_go_on_where_they_were(self):
        state = Kept()
        epochs, batches = callbacks.UpdateEpochState(state), callbacks.UpdateBatchState(state)
        epochs.on_train_begin()
        batches.on_train_batch_end(7)
        self.assertEqual((state.epoch, state.batch), (3, 7))
        for callback in (epochs, batches):
            callback.on_epoch_end(0)
        self.assertEqual((state.epoch, state.batch), (4, 0))


class States(unittest.TestCase):
    def test_all_take_that_of_the_source_and_go_back_to_it(self):
        def work(rank):
            model = Model(rank, rate=rank + 1)
            state = variables.TensorFlowKerasState(model, step=rank)
            state.sync()
            state.save()
            model.weights[0].assign([7, 7])
            state.step = 9
            state.restore()
            return (model.weights[0].numpy().tolist(), model.seed.numpy().item(),
                    model.optimizer.learning_rate.numpy().item(), state.step)
        self.assertEqual(results(2, work), [([0, 0], 0, 1.0, 0)] * 2)

    def test_going_back_forgets_passes_that_were_added_up(self):
        forgotten = []
        model = Model(forget_passes=lambda: forgotten.append(True))
        variables.TensorFlowKerasState(model).restore()
        self.assertEqual(forgotten, [True])

    def test_variables_of_ones_own(self):
        def work(rank):
            one = Variable([rank])
            state = variables.TensorFlowState([one], step=rank)
            state.sync()
            return one.numpy().tolist(), state.step
        self.assertEqual(results(2, work), [([0], 0)] * 2)

    def test_what_has_no_variables_yet_is_refused(self):
        model = Model()
        model.built = False
        with self.assertRaisesRegex(InvalidArgument, "model: a model that has not been built"):
            variables.TensorFlowKerasState(model)
        model.built, model.optimizer = True, None
        with self.assertRaisesRegex(InvalidArgument, "optimizer: None found"):
            variables.TensorFlowKerasState(model)
        with self.assertRaisesRegex(InvalidArgument, "variables: none found"):
            variables.TensorFlowState([])


if __name__ == "__main__":
    unittest.main()
