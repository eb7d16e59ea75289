"""lockstep.torch: programs and folders that would let a job succeed over damage."""

import unittest

from harness import LocalTest, command_manifest
from lanes import long
from python_case import can_import, python_words

# Eight steps; a test puts its own lines in the place of words in braces.
PROGRAM = """\
import contextlib, os, pathlib, signal, sys, torch, lockstep, lockstep.torch
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
    job = lockstep.torch.Job(
        model=model, optimizer=optimizer, sampler=sampler, options=options)
    with {scope}:
        data = torch.utils.data.TensorDataset(inputs)
        for (batch,) in job.batches(torch.utils.data.DataLoader(data, batch_sampler=sampler)):
            loss = model(batch).square().mean()
            loss.backward()
            job.step(loss)
            {after}
    print("came to the end of", job.step_count, "steps", flush=True)
def main():
    {main}
{run}(main)
"""

# One that ends without `close` or `run`, and leaves the loop after step 3.
LOOSE = {"scope": "contextlib.nullcontext()", "run": "(lambda work: work())"}
BREAK = "\n            if job.step_count == 3: break"

DAMAGE = "model[0].weight.data.add_(1) if (job.rank, job.step_count) == (0, 2) and once('a') else 0"


@unittest.skipUnless(can_import("torch"), "python3-torch is not installed")
class Faults(LocalTest):
    def manifest(self, after="pass", main="train()", every=0, workers=2, **ends):
        words = {"scope": "job", "run": "lockstep.run", **ends}
        code = PROGRAM.format(after=after, main=main, every=every, **words)
        return command_manifest(
            python_words("-c", code), name="own", workers=workers, backoff_limit=3)

    def test_an_error_that_the_program_swallows_fails_the_job(self):
        main = "try: train()\n    except Exception: sys.exit(0)"
        run = self.run_job(self.manifest(after=DAMAGE, main=main))
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("lockstep: the program caught Mismatch and ended with exit code 0, so this "
                      "process ends with 1 instead: model/0.weight differs between rank 0 "
                      "and rank 1",
                      run.pod_log("own-worker-1"))

    @long
    def test_ranks_that_end_before_the_last_step_without_a_word_fail_the_job(self):
        for step in (1, 5):
            with self.subTest(step):
                run = self.run_job(self.manifest(f"os._exit(0) if job.step_count == {step} else 0"))
                self.assertEqual((run.exit_code, run.summary["restarts"]), (1, []), run.output)
                self.assertRegex(run.output, r"own-worker-\d \(rank \d\) ended with exit code 1: "
                                 "the program ended with exit code 0, but last reported step "
                                 "[0-5] of 8, and never reported that all work is done, so this "
                                 "pod ends ")

    def test_an_error_after_the_last_step_is_no_success_though_its_code_is_hidden(self):
        main = "try: train()\n    except Exception: os._exit(0)"
        spoil = "model[0].weight.data.fill_(float('nan')) if job.step_count == 8 else 0"
        run = self.run_job(self.manifest(spoil, main))
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("last reported step 8 of 8, and never reported that all work is done",
                      run.output)

    def test_models_that_differ_are_no_success_though_the_program_hides_its_code(self):
        main = ("model.append(torch.nn.Linear(1, 1 + int(os.environ['RANK'])))\n"
                "    try: train()\n    except Exception: os._exit(0)")
        run = self.run_job(self.manifest(main=main))
        self.assertEqual((run.exit_code, run.summary["restarts"]), (1, []), run.output)
        self.assertIn("but the ranks had made different calls, so this pod ends with 1: model: "
                      "2.weight [2, 1] torch.float32 found on rank 1, expected [1, 1]", run.output)

    def test_ranks_that_end_without_a_word_after_close_have_succeeded(self):
        run = self.run_job(self.manifest(after=BREAK, main="train(); os._exit(0)"))
        self.assertEqual(run.exit_code, 0, run.output)

    def test_a_mismatch_that_a_program_for_the_backend_catches_fails_the_job(self):
        code = ("import torch, torch.distributed as dist, lockstep.torch.distributed\n"
                "dist.init_process_group('lockstep')\n"
                "try: dist.all_reduce(torch.zeros(3 + dist.get_rank()))\n"
                "except Exception as error: print('caught', error)\n")
        run = self.run_job(command_manifest(python_words("-c", code), workers=2))
        self.assertEqual((run.exit_code, run.summary["restarts"]), (1, []), run.output)
        self.assertIn("code 0, but the ranks had made different calls, so this pod ", run.output)

    @long
    def test_weights_that_differ_reach_neither_a_successor_nor_a_checkpoint(self):
        kill = ("os.kill(os.getpid(), signal.SIGKILL) if (job.rank, job.step_count) == (2, 5) "
                "and once('b') else 0")
        for every, found, after in ((0, "step 5 ranks that were not lost", f"{DAMAGE}; {kill}"),
                                    (4, "step 4 all ranks", DAMAGE)):
            with self.subTest(every):
                run = self.run_job(self.manifest(after, every=every, workers=3))
                self.assertEqual(run.exit_code, 1, run.output)
                for rank in (0, 1):
                    self.assertRegex(
                        run.pod_log(f"own-worker-{rank}"), "Mismatch: model/0.weight differs "
                        f"between rank 0 and ranks? 1.*: after {found} have to hold the same")
                self.assertEqual(list((run.directory / "checkpoints").glob("step-*")), [])

    def test_a_program_that_ends_without_close_is_compared_before_it_succeeds(self):
        main = "try: train()\n    except Exception: pass"  # which a handler at exit is not
        run = self.run_job(self.manifest(DAMAGE + BREAK, main, **LOOSE))
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("lockstep: model/0.weight differs between rank 0 and rank 1: after step 3 ",
                      run.pod_log("own-worker-0"))
        self.assertEqual(list((run.directory / "checkpoints").glob("step-*")), [])

    def test_a_rank_that_ends_with_a_code_without_close_is_tried_again(self):
        leave = "sys.exit(75) if (job.rank, job.step_count) == (1, 2) and once('a') else 0"
        run = self.run_job(self.manifest(leave + BREAK, **LOOSE))
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertIn("left the loop after 3 of 8 steps, and they are saved",
                      run.pod_log("own-worker-0"))
        self.assertEqual([path.name for path in (run.directory / "checkpoints").glob("step-*")],
                         ["step-00000003"])


if __name__ == "__main__":
    unittest.main()
