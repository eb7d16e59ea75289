"""A program that uses lockstep.jax: the loop of own_program.py with a step that JAX compiles. The
compiled step sums over all ranks.

    lockstep run own_program_jax.yaml

Arguments: the number of steps, and the milliseconds that each step takes.
"""

import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import lockstep
import lockstep.jax
import lockstep.numpy

POINTS_PER_RANK = 64


def loss_of(line, x, y):
    return jnp.mean((line[0] * x + line[1] - y) ** 2)


def compiled_step(collectives):
    """Returns a compiled function that computes the next line and the mean loss of all ranks."""

    @jax.jit
    def step(line, x, y):
        loss, gradient = jax.value_and_grad(loss_of)(line, x, y)
        gradient = collectives.all_reduce(gradient, "mean")
        return line - 0.1 * gradient, collectives.all_reduce(loss, "mean")

    return step


def points(step, rank):
    """This rank's points of the step, near y = 3 x + 1."""
    chance = np.random.default_rng([step, rank])
    x = chance.uniform(-1, 1, POINTS_PER_RANK).astype(np.float32)
    return x, 3 * x + 1 + np.float32(0.1) * chance.uniform(-1, 1, POINTS_PER_RANK).astype("float32")


def train(session, collectives, step, state, steps, pause):
    """Trains to the end of all steps, or to the first error. `state` has the line and the number of
    steps. It changes in one place: when a step is complete."""
    if session.meeting.state_source is not None:
        state["line"] = collectives.broadcast(state["line"], session.meeting.state_source)
        state["step"] = int(collectives.broadcast(state["step"], session.meeting.state_source))
    while state["step"] < steps:
        time.sleep(pause)
        line, loss = step(state["line"], *points(state["step"], session.rank))
        jax.block_until_ready(line)
        state.update(line=line, step=state["step"] + 1)
        session.report(lockstep.Progress(
            state["step"], steps_total=steps, sample_count=POINTS_PER_RANK, loss=float(loss)))
        if session.should_stop() and state["step"] < steps:
            print(f"asked to stop after {state['step']} steps", flush=True)
            raise lockstep.Stopped("asked to stop")
    session.finish()


def attempt(session, collectives, step, state, steps, pause):
    """Like `train`. For an error in a compiled function, it raises the error of Lockstep."""
    try:
        train(session, collectives, step, state, steps, pause)
    except lockstep.LockstepError:
        raise
    except Exception:
        collectives.check()
        raise


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    pause = (int(sys.argv[2]) if len(sys.argv) > 2 else 10) / 1000
    state = {"line": jnp.zeros(2), "step": 0}
    with lockstep.numpy.open(catch_stop=True) as session:
        collectives = lockstep.jax.Collectives(session)
        step = compiled_step(collectives)
        is_done = False
        while not is_done:
            try:
                # If meet fails, the program does not retry: lockstep.run ends it with 75.
                session.meet(has_state=state["step"] > 0, step=state["step"])
            except lockstep.Finished:
                break
            print(f"process {os.getpid()} is rank {session.rank} of {session.size} "
                  f"at epoch {session.meeting.epoch}, step {state['step']}", flush=True)
            try:
                attempt(session, collectives, step, state, steps, pause)
                is_done = True
            except lockstep.MeetAgain as error:
                print(f"joining a new rendezvous: {error}", file=sys.stderr, flush=True)
    slope, offset = (float(number) for number in state["line"])
    print(f"after {steps} steps: y = {slope!r} x + {offset!r}")


if __name__ == "__main__":
    lockstep.run(main)
