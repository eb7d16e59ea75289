"""A loop on accelerate, as users write it: PROGRAM STEPS SECONDS [recovers] [RANK:STEP...].
`recovers`: with a Job of Lockstep, which reads the batches and steps."""

import os
import pathlib
import sys

import accelerate
import torch

from python_trainers_parts import SAMPLES, Moments, Network, Samples, tell_end

SAVE_EVERY = 10


class Count:
    """The steps that are done, which are saved with the rest."""

    def __init__(self):
        self.steps = 0

    def state_dict(self):
        return {"steps": self.steps}

    def load_state_dict(self, state):
        self.steps = state["steps"]


def recover(steps, moments):
    import lockstep.torch
    import lockstep.torch.groups  # before the Accelerator

    accelerate.utils.set_seed(1)
    accelerator = accelerate.Accelerator(cpu=True)
    network = Network()
    model, optimizer = accelerator.prepare(
        network, torch.optim.Adam(network.parameters(), lr=3e-3))
    sampler = lockstep.torch.Sampler(SAMPLES, 8 * accelerator.num_processes, epochs=steps, seed=1)
    loader = torch.utils.data.DataLoader(Samples(), batch_sampler=sampler)
    with lockstep.torch.groups.Job(
            model=model, optimizer=optimizer.optimizer, sampler=sampler) as job:
        for batch in job.batches(loader):
            with job.attempt():
                loss = model(**batch)["loss"]
                accelerator.backward(loss)
                if job.step(loss):
                    moments.after(job.step_count)
            if job.step_count == steps:
                break
    tell_end(network, job.step_count)


def main():
    steps, seconds, words = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    moments = Moments(words)
    if "recovers" in words:
        recover(steps, moments)
        return
    accelerate.utils.set_seed(1)
    folder = pathlib.Path(os.environ["LOCKSTEP_CHECKPOINT_DIR"])
    accelerator = accelerate.Accelerator(cpu=True)
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    loader = torch.utils.data.DataLoader(Samples(), batch_size=8, shuffle=True)
    model, optimizer, loader = accelerator.prepare(network, optimizer, loader)
    count = Count()
    accelerator.register_for_checkpointing(count)
    saved = sorted(folder.glob("step-*"), key=lambda one: int(one.name[5:]))
    if saved:
        accelerator.load_state(str(saved[-1]))
    print("training begins from", saved[-1].name if saved else "the model", flush=True)
    while count.steps < steps:
        for batch in loader:
            loss = model(**batch)["loss"]
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            count.steps += 1
            moments.after(count.steps, seconds)
            if count.steps % SAVE_EVERY == 0:
                accelerator.save_state(str(folder / f"step-{count.steps}"))
            if count.steps == steps:
                break
    tell_end(network, count.steps)
    accelerator.end_training()


if __name__ == "__main__":
    main()
