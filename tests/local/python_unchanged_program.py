"""A DistributedDataParallel program that knows nothing of Lockstep: PROGRAM FOLDER STEPS [WORD...].
It saves every 10 steps into FOLDER and begins at its newest checkpoint. The words: "asks" (on
SIGTERM the loop saves at its next step and ends, as trainers do), "hangs" (from step 60 on ranks 0
and 2 wait for each other, and hear of no loss: so it is with NCCL), "saves" (rank 2 does not wait
then, but reads its data, and on SIGTERM saves for some seconds and ends)."""

import os
import pathlib
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SAVE_EVERY = 10
STEP_SECONDS = 0.02
SAVING_SECONDS = 5
HANG_STEP = 60

asked = []


def tell(*words):
    print(f"{time.monotonic():.3f} process {os.getpid()}", *words, flush=True)


def save(folder, step, model):
    part = folder / "part.pt"
    torch.save({"step": step, "model": model.state_dict()}, part)
    part.rename(folder / f"step-{step:06}.pt")


def load_newest(folder, model):
    saved = sorted(folder.glob("step-*.pt"))
    if not saved:
        return 0
    state = torch.load(saved[-1])
    model.load_state_dict(state["model"])
    return state["step"]


def save_slowly(folder, rank):
    """Of one rank, while others run: what a signal handler does."""
    tell("saves")
    time.sleep(SAVING_SECONDS)
    (folder / f"saved-by-{rank}").write_text("whole")
    tell("has saved")
    os._exit(0)


def hang(rank, words):
    if rank == 2 and "saves" in words:
        while True:
            time.sleep(0.1)
    if rank != 1:
        tell("hangs")
        dist.recv(torch.ones(1), src=2 - rank)
    time.sleep(1000)


def main():
    folder, steps, words = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if "asks" in words:
        signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    if rank == 2 and "saves" in words:
        signal.signal(signal.SIGTERM, lambda *_: save_slowly(folder, rank))
    network = torch.nn.Linear(8, 2)
    done = load_newest(folder, network)
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    tell("begins at step", done)
    for step in range(done + 1, steps + 1):
        if step == HANG_STEP and done == 0 and "hangs" in words:
            hang(rank, words)
        time.sleep(STEP_SECONDS)
        optimizer.zero_grad()
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        tell("did step", step)
        if rank == 0 and (step % SAVE_EVERY == 0 or asked):
            save(folder, step, network)
        if asked:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
