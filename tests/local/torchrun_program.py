"""A rank of torch.distributed that sums over all ranks, step by step.

Arguments: the folder of the test, and what one rank does at its third step, as RANK:DEED. It does
so once, which the folder remembers: `kill` and `term` send it that signal, `pause` waits for one, a
number is its exit code. RANK none: nobody.
"""

import os
import pathlib
import signal
import sys

import torch
import torch.distributed as dist

STEPS = 40
SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM}

folder = pathlib.Path(sys.argv[1])
who, deed = sys.argv[2].split(":")

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
print(f"began as {rank} of {size}, local {os.environ['LOCAL_RANK']}, "
      f"restart {os.environ['TORCHELASTIC_RESTART_COUNT']}, pid {os.getpid()}", flush=True)
for step in range(STEPS):
    if step == 3 and str(rank) == who:
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
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == size, total
print(f"summed over {size} ranks", flush=True)
