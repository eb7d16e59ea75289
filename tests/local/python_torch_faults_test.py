"""lockstep.torch: programs and folders that would let a job succeed over damage."""

import unittest

from harness import LocalTest, command_manifest
from python_case import can_import, python_words

# Four steps on two ranks; a test puts its own lines in the place of `{before}` and `{after}`.
PROGRAM = """\
import os, pathlib, signal, sys, torch, lockstep, lockstep.torch
torch.manual_seed(0)
torch.set_num_threads(1)
inputs = torch.randn(32, 4)
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
folder = pathlib.Path(os.environ["LOCKSTEP_CHECKPOINT_DIR"])
def once(word):
    mark = folder.parent / word
    return not mark.exists() and not mark.touch()
def train():
    sampler = lockstep.torch.Sampler(32, 4, seed=1)
    options = lockstep.torch.JobOptions(checkpoint_every={every})
    with lockstep.torch.Job(
            model=model, optimizer=optimizer, sampler=sampler, options=options) as job:
        data = torch.utils.data.TensorDataset(inputs)
        for (batch,) in job.batches(torch.utils.data.DataLoader(data, batch_sampler=sampler)):
            loss = model(batch).square().mean()
            loss.backward()
            job.step(loss)
            {after}
    print("came to the end of", job.step_count, "steps", flush=True)
def main():
    {main}
lockstep.run(main)
"""

DAMAGE = "model[0].weight.data.add_(1) if (job.rank, job.step_count) == (0, 2) and once('a') else 0"


@unittest.skipUnless(can_import("torch"), "python3-torch is not installed")
class Faults(LocalTest):
    def manifest(self, after="pass", main="train()", every=0):
        code = PROGRAM.format(after=after, main=main, every=every)
        return command_manifest(python_words("-c", code), name="own")

    def test_an_error_that_the_program_swallows_fails_the_job(self):
        main = "try: train()\n    except Exception: sys.exit(0)"
        run = self.run_job(self.manifest(after=DAMAGE, main=main))
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("lockstep: the program caught Mismatch and ended as if all were well, so "
                      "this process ends with 1: model/0.weight differs between rank 0 and rank 1",
                      run.pod_log("own-worker-1"))


if __name__ == "__main__":
    unittest.main()
