"""A TensorFlow program that shows in its job's status how far it is (lockstep.keras.Report), under
MultiWorkerMirroredStrategy where it has peers.

Arguments: the epochs; where it is to survive a loss, the folder of BackupAndRestore. Then it says
how many updates each batch has left behind.
"""

import os
import sys
import time

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

import lockstep.keras


class Clock(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        print(f"step {int(self.model.optimizer.iterations.numpy())}", flush=True)
        time.sleep(0.02)  # so that somebody can break it in its midst


def main():
    has_peers = "TF_CONFIG" in os.environ
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if has_peers else None
    tf.keras.utils.set_random_seed(1)
    inputs = np.random.default_rng(1).random((256, 8), dtype=np.float32)
    targets = (inputs.sum(axis=1) > 4).astype(np.int64)
    scope = strategy.scope() if strategy else tf.distribute.get_strategy().scope()
    with scope:
        model = tf.keras.Sequential([
            tf.keras.layers.Input([8]), tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.Dense(2)])
        model.compile(
            optimizer=tf.keras.optimizers.SGD(0.2), metrics=["accuracy"],
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    data = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(32).with_options(options)
    callbacks = [lockstep.keras.Report(samples_per_step=32)]
    if len(sys.argv) > 2:
        print(f"process {os.getpid()} begins", flush=True)
        callbacks += [tf.keras.callbacks.BackupAndRestore(sys.argv[2]), Clock()]
    history = model.fit(data, epochs=int(sys.argv[1]), verbose=0, validation_data=data,
                        callbacks=callbacks)
    print(f"last loss {history.history['loss'][-1]:.6f}", flush=True)


main()
