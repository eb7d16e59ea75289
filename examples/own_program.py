"""A program of one's own on lockstep.numpy: gradient descent for a line through noisy points, by
all ranks of a job together. A rank that is lost is replaced while the others keep their processes;
the newcomer takes the model from one of them, and no step is lost or taken twice.

    lockstep run own_program_python.yaml

Arguments: steps, and milliseconds that each takes.
"""

import os
import sys
import time

import numpy as np

import lockstep
import lockstep.numpy

POINTS_PER_RANK = 64
SLOPE, OFFSET, STEP = 0, 1, 2  # the model's places: all that a newcomer needs


def own_gradient(model, rank):
    """Of slope and offset, and the loss, for this rank's points of the step, near y = 3 x + 1."""
    chance = np.random.default_rng([int(model[STEP]), rank])
    x = chance.uniform(-1, 1, POINTS_PER_RANK)
    y = 3 * x + 1 + 0.1 * chance.uniform(-1, 1, POINTS_PER_RANK)
    error = model[SLOPE] * x + model[OFFSET] - y
    return np.array([2 * error @ x, 2 * error.sum(), error @ error]) / POINTS_PER_RANK


def train(session, model, steps, pause):
    """To the end of all steps, or the first error. The model changes in one place: when a step's
    mean is there."""
    if session.meeting.state_source is not None:
        session.broadcast(model, root=session.meeting.state_source)
    while model[STEP] < steps:
        time.sleep(pause)
        mean = session.all_reduce(own_gradient(model, session.rank), "mean")
        model -= [0.1 * mean[0], 0.1 * mean[1], -1]
        session.report(lockstep.Progress(
            int(model[STEP]), steps_total=steps, sample_count=POINTS_PER_RANK, loss=mean[2]))
        if session.should_stop() and model[STEP] < steps:
            print(f"asked to stop after {int(model[STEP])} steps", flush=True)
            raise lockstep.Stopped("asked to stop")
    session.finish()


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    pause = (int(sys.argv[2]) if len(sys.argv) > 2 else 10) / 1000
    model = np.zeros(3)
    with lockstep.numpy.open(catch_stop=True) as session:
        is_done = False
        while not is_done:
            try:
                # One that fails is not repeated: lockstep.run ends the process with 75.
                session.meet(has_state=model[STEP] > 0, step=int(model[STEP]))
            except lockstep.Finished:
                break
            print(f"process {os.getpid()} is rank {session.rank} of {session.size} "
                  f"at epoch {session.meeting.epoch}, step {int(model[STEP])}", flush=True)
            try:
                train(session, model, steps, pause)
                is_done = True
            except lockstep.MeetAgain as error:
                print(f"meeting again: {error}", file=sys.stderr, flush=True)
    print(f"after {steps} steps: y = {float(model[SLOPE])!r} x + {float(model[OFFSET])!r}")


if __name__ == "__main__":
    lockstep.run(main)
