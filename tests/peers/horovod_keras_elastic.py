"""A program for Horovod's Keras that goes on after a loss, but for one import as its elastic
programs are: `fit` under `elastic.run`, which commits at the end of each epoch.

Arguments: steps, a multiple of an epoch's, and milliseconds that each takes at least.
"""

import hashlib
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

import lockstep.horovod.keras as hvd  # instead of: import horovod.keras as hvd

SAMPLES = 120
BATCHES = 10  # of an epoch


class Pause(keras.callbacks.Callback):
    """So that somebody can break an epoch in its midst."""

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(int(sys.argv[2]) / 1000)


def main():
    steps = int(sys.argv[1])
    hvd.init()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    keras.utils.set_random_seed(1)
    inputs = np.random.default_rng(1).random((SAMPLES, 8), dtype=np.float32)
    targets = (inputs.sum(axis=1) > 4).astype(np.int64)
    model = keras.Sequential([
        keras.layers.Input([8]), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)])
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.2, momentum=0.5)),
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    @hvd.elastic.run
    def train(state):
        print(f"process {os.getpid()} is rank {hvd.rank()} of {hvd.size()} at step "
              f"{state.epoch * BATCHES}", flush=True)
        own = slice(hvd.rank(), None, hvd.size())
        model.fit(inputs[own], targets[own], batch_size=SAMPLES // BATCHES // hvd.size(),
                  shuffle=False, epochs=steps // BATCHES - state.epoch, verbose=0,
                  callbacks=[
                      Pause(),
                      hvd.elastic.UpdateEpochStateCallback(state),
                      hvd.elastic.CommitStateCallback(state, batches_per_commit=steps),
                  ])

    train(hvd.elastic.KerasState(model, epoch=0))
    digest = hashlib.sha256(b"".join(one.tobytes() for one in model.get_weights()))
    print(f"after {steps} steps: weights {digest.hexdigest()[:16]}", flush=True)


main()
