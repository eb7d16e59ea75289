"""A program that uses lockstep.numpy: all ranks of a job fit a line to noisy points by gradient
descent. If a rank is lost, Lockstep replaces it, and the other ranks keep their processes. The
replacement gets the model from one of them, and no step is lost or taken twice.

    lockstep run own_program_python.yaml

Arguments: the number of steps, and the milliseconds that each step takes.
"""

import os
import sys
import time

import numpy as np

import lockstep
import lockstep.numpy

POINTS_PER_RANK = 64
SLOPE, OFFSET, STEP = 0, 1, 2  # places in the model, which is all that a replacement needs


def own_gradient(model, rank):
    """Gradients of slope and offset, and the loss, for this rank's points near y = 3 x + 1."""
    chance = np.random.default_rng([int(model[STEP]), rank])
    x = chance.uniform(-1, 1, POINTS_PER_RANK)
    y = 3 * x + 1 + 0.1 * chance.uniform(-1, 1, POINTS_PER_RANK)
    error = model[SLOPE] * x + model[OFFSET] - y
    return np.array([2 * error @ x, 2 * error.sum(), error @ error]) / POINTS_PER_RANK


def train(session, model, steps, pause):
    """Trains to the end of all steps, or to the first error. The model changes in one place: when
    the mean of a step has arrived."""
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
                # If meet fails, the program does not retry: lockstep.run ends it with 75.
                session.meet(has_state=model[STEP] > 0, step=int(model[STEP]))
            except lockstep.Finished:
                break
            print(f"process {os.getpid()} is rank {session.rank} of {session.size} "
                  f"at epoch {session.meeting.epoch}, step {int(model[STEP])}", flush=True)
            try:
                train(session, model, steps, pause)
                is_done = True
            except lockstep.MeetAgain as error:
                print(f"joining a new rendezvous: {error}", file=sys.stderr, flush=True)
    print(f"after {steps} steps: y = {float(model[SLOPE])!r} x + {float(model[OFFSET])!r}")


if __name__ == "__main__":
    lockstep.run(main)
