"""A worker of torchrun that counts steps with all others, and goes on from the step that rank 0 has
saved.

Arguments: the folder of the test; the number of steps; what happens, each as RANK:STEP:DEED, once,
which the folder remembers. Deeds: `worker`, `agent` and `pod` kill that process, `absent` the
torchrun whose successor does not come; `frozen` stops it, `drain` asks the pod to end; `raise` is
an exception, a number an exit code. With `idle` ranks load no torch: all end but the one with a
deed, which does it then.
"""

import os
import pathlib
import signal
import sys
import time

folder, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
deeds = [one.split(":") for one in sys.argv[3:] if ":" in one]
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
saved = folder / "saved"


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def deed_at(step):
    """What this rank has to do there; None: nothing."""
    for who, when, deed in deeds:
        done = folder / f"done-{who}-{when}-{deed}"
        if (int(who), int(when)) == (rank, step) and not done.exists():
            done.touch()
            return deed
    return None


def do(deed):
    print(f"does {deed}", flush=True)
    if deed == "raise":
        raise ValueError("a fault of the program")
    if deed.isdigit():
        sys.exit(int(deed))
    if deed == "absent":
        (folder / "absent").touch()
    agent = os.getppid()
    victim = {"worker": os.getpid(), "pod": parent_of(agent), "drain": parent_of(agent)}
    how = {"frozen": signal.SIGSTOP, "drain": signal.SIGTERM}
    os.kill(victim.get(deed, agent), how.get(deed, signal.SIGKILL))
    signal.pause()


print(f"began as {rank} of {size}, restart {os.environ['TORCHELASTIC_RESTART_COUNT']}, "
      f"agent {os.getppid()}, process {os.getpid()}", flush=True)
if "idle" in sys.argv[3:]:
    deed = deed_at(0)
    if deed is not None:
        while len(list(folder.glob("ended-*"))) < size - 1:
            time.sleep(0.05)
        time.sleep(1)  # for the torchruns to see it
        do(deed)
    (folder / f"ended-{rank}").touch()
    sys.exit(0)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

dist.init_process_group("gloo")
step = torch.tensor([int(saved.read_text()) if saved.exists() else 0])
dist.broadcast(step, 0)
print(f"goes on from step {step.item()}", flush=True)
while step.item() < steps:
    deed = deed_at(step.item())
    if deed is not None:
        do(deed)
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == size, total
    step += 1
    if rank == 0:
        (folder / "saving").write_text(str(step.item()))
        (folder / "saving").replace(saved)
print(f"has taken {step.item()} steps with {size} ranks", flush=True)
