"""A TensorFlow program with MultiWorkerMirroredStrategy, without any code for Lockstep.

It finds its peers only through TF_CONFIG. The chief prints the loss of each epoch. It runs with
tensorflow-cpu and tf-keras (TF_USE_LEGACY_KERAS=1): Keras 3 does not train on several workers.
"""

import json
import os

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    tf.keras.utils.set_random_seed(1)
    inputs = np.random.default_rng(1).random((256, 8), dtype=np.float32)
    targets = (inputs.sum(axis=1) > 4).astype(np.int64)
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Dense(16, activation="relu", input_shape=(8,)),
                tf.keras.layers.Dense(2),
            ]
        )
        model.compile(
            optimizer=tf.keras.optimizers.SGD(0.2),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    data = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(32).with_options(options)
    history = model.fit(data, epochs=5, verbose=0)
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"type": "worker", "index": 0})
    if task["type"] == "chief" or task["index"] == 0:
        for epoch, loss in enumerate(history.history["loss"]):
            print(f"epoch {epoch} loss {loss:.6f}", flush=True)


main()
