"""A program on torch that knows nothing of Lockstep loses a rank: how long the runtime takes to end
the other one, which waits in an all-reduce and handles SIGTERM, and whom it names."""

import json
import os
import re
import subprocess
import sys
import time

from kill_row import free_port

SECONDS_MAX = 2
PATIENCE_SECONDS = 80

PROGRAM = """\
import os, signal, time
import torch
import torch.distributed as dist

backend = os.environ["BACKEND"]
device = "cpu"
if backend == "nccl":
    device = f"cuda:{os.environ['LOCAL_RANK']}"
    torch.cuda.set_device(device)
dist.init_process_group(backend)
signal.signal(signal.SIGTERM, lambda *_: None)
numbers = torch.ones(1 << 16, device=device)
for step in range(1000):
    if step == 50 and dist.get_rank() == 1:
        print("dies at", time.monotonic(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(numbers)
    float((numbers / 2).sum())
"""


def environment(scratch):
    """Of the only pod of a job, which has two ranks, as `lockstep run` sets it."""
    cluster = {"cluster": {"worker": [f"127.0.0.1:{free_port()}" for _ in range(2)]},
               "task": {"type": "worker", "index": 0}}
    return {
        **os.environ,
        "LOCKSTEP_JOB": "gpu", "LOCKSTEP_NAMESPACE": "local", "LOCKSTEP_JOB_UID": "gpu-2",
        "LOCKSTEP_ATTEMPT": "0", "LOCKSTEP_EPOCH": "1", "LOCKSTEP_INCARNATION": "0",
        "LOCKSTEP_POD": "gpu-worker-0", "LOCKSTEP_ROLE": "worker", "LOCKSTEP_INDEX": "0",
        "LOCKSTEP_RANK": "0", "LOCKSTEP_WORLD_SIZE": "2", "LOCKSTEP_PROCESSES": "2",
        "LOCKSTEP_BIND_ADDRESS": "127.0.0.1", "LOCKSTEP_STATUS_PORT": str(free_port()),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        "TF_CONFIG": json.dumps(cluster),
        "LOCKSTEP_TERMINATION_MESSAGE_FILE": str(scratch / "unchanged-last-words"),
    }


def measure(runtime, scratch, backend):
    """(seconds from the death of rank 1 to the end of all, the rank that is named)"""
    script = scratch / "unchanged.py"
    script.write_text(PROGRAM)
    run = subprocess.run(
        [str(runtime), "run", "--", sys.executable, str(script)], capture_output=True, text=True,
        env={**environment(scratch), "BACKEND": backend}, check=False, timeout=PATIENCE_SECONDS)
    ended_at = time.monotonic()
    died = re.search(r"dies at (\S+)", run.stdout + run.stderr)
    if died is None:
        raise OSError((run.stdout + run.stderr).splitlines()[-1])
    words = json.loads((scratch / "unchanged-last-words").read_text())
    return ended_at - float(died[1]), words.get("culpritRank")


def print_row(rows, what, programs, scratch):
    import torch
    found = torch.cuda.device_count()
    if found < 2:
        rows.print(what, f"needs 2 GPUs, {found} found", "", "left out")
        return
    try:
        seconds, culprit = measure(programs / "lockstep-runtime", scratch, "nccl")
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        rows.print(what, error, f"<= {SECONDS_MAX} s", "MISSED")
        return
    rows.bar(what, f"{seconds:.2f} s, rank {culprit} is named", f"<= {SECONDS_MAX} s, rank 1",
             seconds <= SECONDS_MAX and culprit == 1)
