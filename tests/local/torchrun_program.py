"""A rank of torch.distributed that sums over all ranks, step by step.

Arguments: the folder of the test, and what one rank does at its third step, as RANK:DEED. It does
so once, which the folder remembers: `kill` and `term` send it that signal, `pause` waits for one, a
number is its exit code. RANK none: nobody. With a third argument, "idle", ranks load no torch, and
wait for the deed in place of each other: once it is done, and where there is none, they end.
"""

import os
import pathlib
import signal
import sys

STEPS = 40
SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM}

folder = pathlib.Path(sys.argv[1])
who, deed = sys.argv[2].split(":")
is_idle = "idle" in sys.argv[3:]
waits = is_idle and who != "none" and not (folder / "done").exists()
rank, size = os.environ["RANK"], int(os.environ["WORLD_SIZE"])

if not is_idle:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    assert (str(dist.get_rank()), dist.get_world_size()) == (rank, size)
print(f"began as {rank} of {size}, local {os.environ['LOCAL_RANK']}, "
      f"restart {os.environ['TORCHELASTIC_RESTART_COUNT']}, pid {os.getpid()}", flush=True)
for step in range(STEPS):
    if step == 3 and rank == who:
        try:
            (folder / "done").open("x").close()
        except FileExistsError:
            pass
        else:
            if deed in SIGNALS:
                os.kill(os.getpid(), SIGNALS[deed])
                signal.pause()
            if deed == "pause":
                signal.pause()
            sys.exit(int(deed))
    if waits and rank != who:
        signal.pause()
    if not is_idle:
        total = torch.ones(1)
        dist.all_reduce(total)
        assert total.item() == size, total
print(f"summed over {size} ranks", flush=True)
