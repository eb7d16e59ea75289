"""Tests each new checkpoint of torch_job.py on digits that were not used for training, and ends
after the last checkpoint.
"""

import os
import time

import lockstep.torch
import torch

from digits import digits
from torch_job import STEPS, network

UNSEEN = 9000, 10000


def main():
    torch.set_num_threads(1)
    model = network().eval()
    inputs, labels = digits(*UNSEEN).tensors
    tested = 0
    while tested < STEPS:
        found = lockstep.torch.newest_checkpoint(os.environ["LOCKSTEP_CHECKPOINT_DIR"])
        if found is None or found.step == tested:
            time.sleep(0.1)
            continue
        tested = found.step
        model.load_state_dict(found.model)
        with torch.no_grad():
            hits = (model(inputs).argmax(1) == labels).float().mean().item()
        print(f"step {tested}: {hits:.1%} of {len(labels)} unseen digits are right", flush=True)


if __name__ == "__main__":
    main()
