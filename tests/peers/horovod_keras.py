"""A data-parallel Keras program for Horovod that knows nothing of Lockstep.

It trains a small network on fixed data as Horovod's own examples do, and rank 0 prints each epoch's
loss, and what a step took after the first epoch.

usage: horovod_keras.py EPOCHS BACKWARD_PASSES_PER_STEP GLOBAL_BATCH
"""

import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf

SAMPLES = 120


class Clock(tf.keras.callbacks.Callback):
    """When each epoch ended."""

    def __init__(self):
        super().__init__()
        self.ended = []

    def on_epoch_end(self, epoch, logs=None):
        self.ended.append(time.monotonic())


def main():
    hvd.init()
    generator = np.random.default_rng(1)
    inputs = generator.random((SAMPLES, 8), dtype=np.float32)
    targets = (inputs.sum(axis=1) > 4).astype(np.int64)
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([
        tf.keras.layers.Input([8]), tf.keras.layers.Dense(16, activation="relu"),
        tf.keras.layers.Dense(2)])
    optimizer = hvd.DistributedOptimizer(
        tf.keras.optimizers.SGD(0.2, momentum=0.5), backward_passes_per_step=int(sys.argv[2]),
        average_aggregated_gradients=True)
    model.compile(optimizer=optimizer, metrics=["accuracy"],
                  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    own = slice(hvd.rank(), None, hvd.size())
    clock = Clock()
    history = model.fit(
        inputs[own], targets[own], batch_size=int(sys.argv[3]) // hvd.size(), shuffle=False,
        epochs=int(sys.argv[1]), verbose=0,
        callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd.callbacks.MetricAverageCallback(),
            hvd.callbacks.LearningRateScheduleCallback(
                initial_lr=0.2, multiplier=0.9, momentum_correction=False),
            clock,
        ])
    if hvd.rank() == 0:
        for epoch, loss in enumerate(history.history["loss"]):
            print(f"step {epoch} loss {loss:.7f}", flush=True)
        steps = (len(clock.ended) - 1) * SAMPLES // int(sys.argv[3])
        took = (clock.ended[-1] - clock.ended[0]) / max(1, steps)
        print(f"each step took {took * 1000:.3f} ms", flush=True)
    print(f"rank {hvd.rank()} of {hvd.size()}, local {hvd.local_rank()} of {hvd.local_size()}, "
          f"cross {hvd.cross_rank()} of {hvd.cross_size()}", flush=True)
    hvd.shutdown()


main()
