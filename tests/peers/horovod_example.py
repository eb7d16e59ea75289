"""Runs one of Horovod's own TensorFlow examples as it is, but for what a test has not: its digits
are the 10,000 of this repository, which need no network, its steps are few, and its seeds are
fixed. Says what each step's loss was and when it ended, in seconds of the monotonic clock.

usage: horovod_example.py PROGRAM STEPS_OF_AN_EPOCH EPOCHS
"""

import gzip
import os
import pathlib
import runpy
import statistics
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "data" / "mnist"
HEADER_BYTES = {"images": 16, "labels": 8}  # of IDX with three dimensions and with one

PROGRAM, STEPS, EPOCHS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ended = []  # when each step did


def digits(path=None):
    """As Keras gives MNIST; test and training are the same here."""
    images, labels = (
        np.frombuffer(gzip.decompress((DIGITS / f"t10k-{name}-ubyte.gz").read_bytes()), np.uint8)
        for name in ("images-idx3", "labels-idx1"))
    both = (images[HEADER_BYTES["images"]:].reshape(-1, 28, 28), labels[HEADER_BYTES["labels"]:])
    return both, both


class Clock(tf.keras.callbacks.Callback):
    """Of Keras's own `fit`."""

    def on_train_batch_end(self, batch, logs=None):
        ended.append(time.monotonic())
        print(f"step {len(ended)} loss {logs['loss']:.7f} at {ended[-1]:.3f}", flush=True)


def shorter_fit(fit):
    def few(self, *data, steps_per_epoch, epochs, callbacks=None, verbose=0):
        own = callbacks and [*callbacks, Clock()]  # no callbacks: it only makes variables
        return fit(self, *data, steps_per_epoch=min(STEPS, steps_per_epoch),
                   epochs=min(EPOCHS, epochs), callbacks=own, verbose=0)
    return few


def shorter_take(take):
    """A loop of one's own says its losses itself."""
    def few(self, count, name=None):
        for batch in take(self, min(STEPS * EPOCHS, count)):
            yield batch
            ended.append(time.monotonic())
    return few


def main():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.keras.utils.set_random_seed(1)
    tf.keras.datasets.mnist.load_data = digits
    tf.keras.Model.fit = shorter_fit(tf.keras.Model.fit)
    tf.data.Dataset.take = shorter_take(tf.data.Dataset.take)
    print(f"process {os.getpid()} begins", flush=True)
    sys.argv[1:] = []
    with tempfile.TemporaryDirectory(prefix="lockstep-test-") as folder:
        os.chdir(folder)  # where it puts its checkpoints
        runpy.run_path(PROGRAM, run_name="__main__")
        os.chdir("/")
    took = [after - before for before, after in zip(ended[1:], ended[2:])]
    print(f"each step took {statistics.median(took) * 1000:.3f} ms", flush=True)


main()
