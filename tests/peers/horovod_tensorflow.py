"""A data-parallel TensorFlow 2 program for Horovod that knows nothing of Lockstep.

It trains a small network on fixed data as Horovod's own examples do, by a tape within a function,
and rank 0 prints each step's loss.

usage: horovod_tensorflow.py STEPS
"""

import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

SAMPLES = 60  # divides by all numbers of ranks up to six


def main():
    hvd.init()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    generator = np.random.default_rng(1)
    inputs = generator.random((SAMPLES, 8), dtype=np.float32)
    targets = (inputs.sum(axis=1) > 4).astype(np.int64)
    tf.keras.utils.set_random_seed(1 + hvd.rank())  # rank 0's weights are what counts
    model = tf.keras.Sequential([
        tf.keras.layers.Input([8]), tf.keras.layers.Dense(16, activation="relu"),
        tf.keras.layers.Dense(2)])
    optimizer = tf.keras.optimizers.Adam(0.01)
    loss_function = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    hvd.broadcast_variables(model.variables, root_rank=0)

    @tf.function
    def training_step(own_inputs, own_targets, is_first):
        with tf.GradientTape() as tape:
            loss = loss_function(own_targets, model(own_inputs, training=True))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        if is_first:
            hvd.broadcast_variables(model.variables, root_rank=0)
        return hvd.allreduce(loss, name="loss")

    print(f"rank {hvd.rank()} of {hvd.size()}, local {hvd.local_rank()} of {hvd.local_size()}, "
          f"cross {hvd.cross_rank()} of {hvd.cross_size()}", flush=True)
    own = slice(hvd.rank(), None, hvd.size())
    own_inputs, own_targets = tf.constant(inputs[own]), tf.constant(targets[own])
    begin = time.monotonic()
    steps = int(sys.argv[1])
    for step in range(steps):
        loss = training_step(own_inputs, own_targets, step == 0)
        if step == 1:
            begin = time.monotonic()  # both functions are compiled
        if hvd.rank() == 0:
            print(f"step {step} loss {float(loss):.7f}", flush=True)
    took = (time.monotonic() - begin) / max(1, steps - 2)
    if hvd.rank() == 0:
        print(f"each step took {took * 1000:.3f} ms", flush=True)
    hvd.shutdown()


main()
