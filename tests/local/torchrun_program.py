"""A rank of torch.distributed that sums over all ranks, step by step.

Arguments: the folder of the test, and what one rank does at its third step, as RANK:DEED; with
commas between them, what one does of each start. It does so once, which the folder remembers:
`kill` and `term` send it that signal, `pause` waits for one, a number is its exit code. RANK none:
nobody. With a third argument, "idle", ranks load no torch, and wait for the deed in place of each
other: their torchrun ends them when it is done. Where there is none, they end.
"""

import os
import pathlib
import signal
import sys
import time

STEPS = 40
SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM}

folder = pathlib.Path(sys.argv[1])
deeds = [(*one.split(":"), folder / f"done-{i}-{one}")
         for i, one in enumerate(sys.argv[2].split(","))]
who, deed, done = next((one for one in deeds if not one[2].exists()), ("none", "", None))
is_idle = "idle" in sys.argv[3:]
waits = is_idle and who != "none"
rank, size = os.environ["RANK"], int(os.environ["WORLD_SIZE"])

if not is_idle:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    assert (str(dist.get_rank()), dist.get_world_size()) == (rank, size)
print(f"began as {rank} of {size}, local {os.environ['LOCAL_RANK']}, "
      f"restart {os.environ['TORCHELASTIC_RESTART_COUNT']}, pid {os.getpid()}", flush=True)
if waits:
    # All know the deed of this start before it is done, as those do that meet.
    here = f"here-{os.environ['LOCKSTEP_ATTEMPT']}"
    (folder / f"{here}-{rank}").touch()
    while len(list(folder.glob(f"{here}-*"))) < size:
        time.sleep(0.05)
for step in range(STEPS):
    if step == 3 and rank == who:
        if deed == "pause":
            signal.pause()
        done.touch(exist_ok=False)
        if deed in SIGNALS:
            os.kill(os.getpid(), SIGNALS[deed])
            signal.pause()
        sys.exit(int(deed))
    if waits and rank != who:
        signal.pause()
    if not is_idle:
        total = torch.ones(1)
        dist.all_reduce(total)
        assert total.item() == size, total
print(f"summed over {size} ranks", flush=True)
