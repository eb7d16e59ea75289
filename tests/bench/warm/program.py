"""A program on liblockstep that says when its first line of its own runs: what run.py kills."""

import os
import time

import torch  # noqa: F401  what a successor would import first

print(f"begins {os.getpid()} {time.time()}", flush=True)

import lockstep.numpy  # noqa: E402

STEP_SECONDS = 0.01


def take_steps(session, step):
    """Until somebody asks all to stop, or a rank is lost. Each step is reported: a process that is
    lost without one since the last loss is not replaced."""
    while not session.should_stop():
        session.barrier()
        step += 1
        session.report(lockstep.Progress(step))
        time.sleep(STEP_SECONDS)


def main():
    with lockstep.numpy.open(catch_stop=True) as session:
        while True:
            try:
                session.meet(has_state=True, step=0)
                print("steps", flush=True)
                take_steps(session, int(time.time() * 1000))  # grows, whoever begins
            except lockstep.MeetAgain:
                continue
            return


lockstep.run(main)
