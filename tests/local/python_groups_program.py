"""A small network on torch's own groups by lockstep.torch.groups. Arguments: the kind (ddp, fsdp,
hsdp), steps, then words: raises, view, unused, accumulate, scaler, shares (an object in the
set-up), steps (by Steps, whose loop is this program's), pairs (groups of two ranks), late (a group
after two steps), metric (a sum of the program's own after each step), ema (a mean of the weights in
`extra`, whose state_dict gathers it), shard (in `extra`, a tensor that ranks hold different values
of), warm (a backward pass before the Job), freezes (a layer after two steps), frozen (stops in
place of a death), copies (of shards, every three steps), and moments at which a rank kills itself,
as PLACE:RANK:STEP. The places:

    setup        before the Job is made
    forward      before the model has seen the batch
    NAME.N       in the N-th call NAME of the step, as allreduce.2
    update       when all ranks have voted, before the update
    deaf         when all ranks have voted: it does not die, and does not hear the outcome
    metric       after the step, before the program's own sum
    copy.N       before the N-th rank hands over its shard for a copy
    meeting      in the meeting after a loss
"""

import hashlib
import os
import pathlib
import signal
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import lockstep
import lockstep.torch
import lockstep.torch.groups
from lockstep.torch.groups import copies
from lockstep.torch.groups.facade import GroupFacade

SAMPLES = 64


class Pairs:
    """Groups of two ranks each, of which this rank is in some."""

    def __init__(self):
        size = dist.get_world_size()
        pairs = [[one, other] for one in range(size) for other in range(one + 1, size)]
        made = [(pair, dist.new_group(pair)) for pair in pairs]
        self.own = [(pair, group) for pair, group in made if dist.get_rank() in pair]

    def sums(self):
        """Of ranks, and what they have to be."""
        found = []
        for pair, group in self.own:
            total = torch.tensor([float(dist.get_rank())])
            dist.all_reduce(total, group=group)
            found.append((total.item(), sum(pair)))
        return found


class Average:
    """A moving mean of the weights, which its state_dict gathers."""

    def __init__(self, model):
        self.tensors = {name: one.detach().clone() for name, one in model.named_parameters()}

    def state_dict(self):
        return {name: one.full_tensor() for name, one in self.tensors.items()}

    def load_state_dict(self, state):
        raise AssertionError("a run without a loss has loaded a state")


class Shard(Average):
    """As ranks hold it."""

    def state_dict(self):
        return {name: one.to_local() for name, one in self.tensors.items()}


class Moments:
    """When this process ends itself: each once in a run, whatever process stands for the rank."""

    def __init__(self, words):
        self.words = [word for word in words if ":" in word]
        self.folder = pathlib.Path(os.environ["LOCKSTEP_CHECKPOINT_DIR"]).parent
        self.job = None
        self.signal = signal.SIGSTOP if "frozen" in words else signal.SIGKILL
        self.calls = {}

    def come(self, place):
        rank = int(os.environ["RANK"])
        step = 0 if self.job is None else self.job.step_count
        for word in self.words:
            mark = self.folder / f"died-{word}"
            if word == f"{place}:{rank}:{step}" and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), self.signal)

    def watch(self, job):
        self.job = job
        self.watch_calls()
        self.be_deaf(job._reducer)
        self.come_before(job, "_update", "update")
        self.come_before(job, "_meet", "meeting")
        self.watch_copies()

    def be_deaf(self, reducer):
        """Where the vote has come through, this rank hears nothing of it: deaf:RANK:STEP."""
        vote = reducer.reduce

        def deaf(*arguments):
            total = vote(*arguments)
            word = f"deaf:{self.job.rank}:{self.job.step_count}"
            if word in self.words:
                self.words.remove(word)
                raise lockstep.MeetAgain("the outcome was lost", lockstep.Status.ABORTED)
            return total

        reducer.reduce = deaf

    def count(self, name):
        if self.job is not None:
            self.calls[name] = self.calls.get(name, 0) + 1
            self.come(f"{name}.{self.calls[name]}")

    def come_before(self, owner, name, place):
        original = getattr(owner, name)

        def dying(*arguments, **named):
            self.come(place)
            return original(*arguments, **named)

        setattr(owner, name, dying)

    def watch_copies(self):
        original = copies.broadcast_state

        def counted(*arguments):
            self.count("copy")
            return original(*arguments)

        copies.broadcast_state = counted

    def watch_calls(self):
        original = GroupFacade._call

        def counted(facade, name, arguments, named):
            self.count(name)
            return original(facade, name, arguments, named)

        GroupFacade._call = counted


def network(kind):
    norm = nn.BatchNorm1d if kind == "ddp" else nn.LayerNorm  # shards leave buffers to each rank
    return nn.Sequential(
        nn.Linear(32, 64), norm(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 64),
        nn.ReLU(), nn.Linear(64, 8))


def wrap(kind, words, model):
    """As `kind` says: shards are of one mesh, in which HSDP has two rows of replicas."""
    if kind in ("fsdp", "hsdp"):
        size = dist.get_world_size()
        shape, names = ((size,), ("shard",)) if kind == "fsdp" else (
            (2, size // 2), ("replica", "shard"))
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
        for layer in model:
            if list(layer.parameters()):
                fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(
            model, bucket_cap_mb=0.01, gradient_as_bucket_view="view" in words,
            find_unused_parameters="unused" in words)
    raise SystemExit(f"kind: {kind} found, expected ddp, fsdp or hsdp")


def main():
    kind, steps, words = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    torch.set_num_threads(1)
    moments = Moments(words)
    dist.init_process_group("gloo")
    # DistributedDataParallel makes rank 0's weights those of all.
    torch.manual_seed(int(os.environ["RANK"]) if kind == "ddp" else 1)
    bare = network(kind)
    model = wrap(kind, words, bare)
    moments.come("setup")
    if "shares" in words:
        dist.broadcast_object_list([os.getpid()])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4], 0.5)
    pairs = Pairs() if "pairs" in words else None
    torch.manual_seed(5)
    data = torch.utils.data.TensorDataset(torch.randn(SAMPLES, 32), torch.randn(SAMPLES, 8))
    sampler = lockstep.torch.Sampler(SAMPLES, 16, epochs=-(-steps * 16 // SAMPLES), seed=7)
    if "steps" in words:
        train_by_steps(model, optimizer, scheduler, data, steps, moments)
        tell_end(bare, scheduler, steps)
        return
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0) if "scaler" in words else None
    if "warm" in words:
        for _ in range(2):  # DistributedDataParallel sorts its buckets in the second
            model(torch.ones(4, 32)).sum().backward()
    extra = {"scheduler": scheduler}
    extra.update({name: kind(model) for name, kind in (("ema", Average), ("shard", Shard))
                  if name in words})
    job = lockstep.torch.groups.Job(
        model=model, optimizer=optimizer, sampler=sampler, extra=extra,
        scaler=scaler, raises="raises" in words, copy_every=3 if "copies" in words else None)
    moments.watch(job)
    group = dist.group.WORLD
    epoch = None

    def clip():
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    with job:
        for inputs, labels in job.batches(torch.utils.data.DataLoader(data, batch_sampler=sampler)):
            moments.calls.clear()
            if job.meeting.epoch != epoch:
                epoch = job.meeting.epoch
                print(f"process {os.getpid()} is rank {job.rank} of {job.size} at epoch {epoch}, "
                      f"step {job.step_count}", flush=True)
            with job.attempt():
                moments.come("forward")
                sums = pairs.sums() if pairs else []
                loss = backward(model, inputs, labels, words, scaler)
                if job.step(loss, before_update=clip):
                    scheduler.step()
                    assert all(found == wanted for found, wanted in sums), sums
                if "metric" in words:
                    moments.come("metric")
                    dist.all_reduce(torch.ones(1))
            if "freezes" in words and job.step_count == 2:
                bare[0].requires_grad_(False)
            if "late" in words and job.step_count == 2:
                words.remove("late")
                dist.new_group([0, 1])
        assert dist.group.WORLD is group and job.model is model
        tell_end(bare, scheduler, job.step_count)


def tell_end(bare, scheduler, steps):
    digest = hashlib.sha256()
    for tensor in [*bare.state_dict().values(), torch.tensor(scheduler.last_epoch)]:
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        digest.update(str(whole.tolist()).encode())
    print(f"after {steps} steps: weights {digest.hexdigest()[:16]}", flush=True)


class Counter:
    """What the program's own loop counts."""

    def __init__(self):
        self.done = 0

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.done = state["done"]


def train_by_steps(model, optimizer, scheduler, data, steps, moments):
    """The loop never goes back, and reads its batches itself."""
    loop = Counter()
    job = lockstep.torch.groups.Steps(
        model=model, optimizer=optimizer, loop=loop, step=0, steps_total=steps, seed=7,
        extra={"scheduler": scheduler})
    moments.watch(job)
    print(f"process {os.getpid()} is rank {job.rank} of {job.size} at step {loop.done}", flush=True)
    while loop.done < steps:
        begin = (2 * loop.done + job.rank) * 8 % SAMPLES
        inputs, labels = data[begin: begin + 8]

        def compute(inputs=inputs, labels=labels):
            moments.calls.clear()
            moments.come("forward")
            return torch.tensor(backward(model, inputs, labels, (), None))

        job.take(compute)
        loop.done += 1
        scheduler.step()
    job.close()


def backward(model, inputs, labels, words, scaler):
    parts = 2 if "accumulate" in words else 1
    total = 0.0
    for number, (some, wanted) in enumerate(zip(inputs.chunk(parts), labels.chunk(parts)), 1):
        loss = ((model(some) - wanted) ** 2).mean() / parts
        scaled = loss if scaler is None else scaler.scale(loss)
        if number < parts:
            with model.no_sync():
                scaled.backward()
        else:
            scaled.backward()
        total += loss.item()
    return total


if __name__ == "__main__":
    lockstep.run(main)
