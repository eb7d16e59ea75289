"""A TensorFlow program for Horovod's elastic mode that runs without Horovod: only one import is
changed. All ranks of a job train a small convolution on the digits. If a rank is lost, Lockstep
replaces it, the other ranks keep their processes, and all continue after the last commit.

    lockstep run horovod_tensorflow_elastic.yaml

Arguments: the number of steps, and the milliseconds that each step takes at least.
"""

import gzip
import hashlib
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

import lockstep.horovod.tensorflow as hvd  # instead of: import horovod.tensorflow as hvd

MNIST = pathlib.Path(__file__).resolve().parent / "data" / "mnist"
SAMPLES = 960
GLOBAL_BATCH = 60  # of all ranks together


def digits():
    images = gzip.decompress((MNIST / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((MNIST / "t10k-labels-idx1-ubyte.gz").read_bytes())[8:]
    inputs = np.frombuffer(images, np.uint8, SAMPLES * 784).reshape(-1, 28, 28, 1)
    return (inputs / np.float32(255)).astype(np.float32), \
        np.frombuffer(labels, np.uint8, SAMPLES).astype(np.int64)


def batch_of(step):
    """This rank's samples of a step. Each data epoch has its own order."""
    epoch, batch = divmod(step, SAMPLES // GLOBAL_BATCH)
    order = np.random.default_rng([7, epoch]).permutation(SAMPLES)
    return order[batch * GLOBAL_BATCH : (batch + 1) * GLOBAL_BATCH][hvd.rank() :: hvd.size()]


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    pause = (int(sys.argv[2]) if len(sys.argv) > 2 else 10) / 1000
    hvd.init()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.keras.utils.set_random_seed(1)
    inputs, labels = digits()
    model = tf.keras.Sequential([
        tf.keras.layers.Input([28, 28, 1]), tf.keras.layers.Conv2D(8, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(4), tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
    optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
    loss_function = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def take_step(own_inputs, own_labels):
        with tf.GradientTape() as tape:
            loss = loss_function(own_labels, model(own_inputs, training=True))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return hvd.allreduce(loss, name="loss")

    @hvd.elastic.run
    def train(state):
        print(f"process {os.getpid()} is rank {hvd.rank()} of {hvd.size()} at step {state.step}",
              flush=True)
        while state.step < steps:
            time.sleep(pause)
            own = batch_of(state.step)
            loss = float(take_step(inputs[own], labels[own]))
            if hvd.rank() == 0:
                print(f"step {state.step} loss {loss:.6f}", flush=True)
            state.step += 1
            state.commit()

    train(hvd.elastic.TensorFlowKerasState(model, optimizer, step=0))
    digest = hashlib.sha256(b"".join(one.tobytes() for one in model.get_weights()))
    print(f"after {steps} steps: weights {digest.hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    main()
