"""A TensorFlow program with MultiWorkerMirroredStrategy and BackupAndRestore that knows nothing of
Lockstep. It says when each epoch begins and each step ends, in seconds of the monotonic clock.
Arguments: the folder of the backup, the epochs."""

import json
import os
import sys
import time

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf


class Clock(tf.keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        print(f"epoch {epoch} begins", flush=True)

    def on_train_batch_end(self, batch, logs=None):
        print(f"step at {time.monotonic():.3f}", flush=True)
        time.sleep(0.02)  # so that somebody can break it in its midst

    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch} loss {logs['loss']:.6f}", flush=True)


def main():
    folder, epochs = sys.argv[1], int(sys.argv[2])
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    print(f"task {task['index']} is process {os.getpid()}", flush=True)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    tf.keras.utils.set_random_seed(1)
    inputs = np.random.default_rng(1).random((256, 8), dtype=np.float32)
    targets = (inputs.sum(axis=1) > 4).astype(np.int64)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu", input_shape=(8,)),
                                     tf.keras.layers.Dense(2)])
        model.compile(
            optimizer=tf.keras.optimizers.SGD(0.2),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    data = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(32).with_options(options)
    model.fit(data, epochs=epochs, verbose=0,
              callbacks=[tf.keras.callbacks.BackupAndRestore(folder), Clock()])


main()
