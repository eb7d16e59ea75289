"""Trainings of the engine for GPUs, each worker with several: over the doubles of NCCL and driver,
and of an engine whose gradients are in that driver's memory. By Auto they are summed where they
are; where something is in the way all ranks sum by the CPU, and say why."""

import contextlib
import os
import shutil
import unittest
from unittest import mock

import nccl_test
from harness import BIN, training_manifest

STEPS = 60
WORKERS = 2
PLUGIN = BIN.parent / "trainer-runtime/cmd/plugins/liblockstep_test_gpu_plugin.so"
# What it has inside, without the GPU around it.
HOST_PLUGIN = BIN.parent / "trainer-runtime/engine/plugins/liblockstep_test_reference_plugin.so"
# The pods have of this program's variables what their template names.
POD_VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "FAKE_CUDA_DEVICES", "FAKE_CUDA_UUID",
                 "FAKE_NCCL_FAULT", "NCCL_COMM_BLOCKING")
MISSED = "gradients of GPUs are summed by the CPU, not by NCCL"
LOSS_TOLERANCE = 1e-4  # of sums in another order, 60 steps of Adam


@contextlib.contextmanager
def gpus(count, release="2.30", **variables):
    """Each worker has `count` GPUs and an engine for them; without a release there is no NCCL."""
    assert PLUGIN.exists(), "build the target lockstep_test_gpu_plugin"
    path = str(nccl_test.DOUBLES / "cuda")
    if release:
        path += f":{nccl_test.DOUBLES / ('nccl-' + release)}"
    names = ",".join(f"GPU-test-{i}" for i in range(count))
    variables = {"LD_LIBRARY_PATH": path, "NVIDIA_VISIBLE_DEVICES": names,
                 "FAKE_CUDA_DEVICES": str(count), **variables}
    with mock.patch.dict(os.environ, variables):
        yield


class DevicesCase(nccl_test.NcclCase):
    engine = None  # its own, beside the runtime

    def setUp(self):
        super().setUp()
        folder = self.scratch / "bin"
        folder.mkdir()
        self.runtime = folder / "lockstep-runtime"
        shutil.copy(BIN / "lockstep-runtime", self.runtime)  # it looks for engines beside itself
        for name, plugin in (("", HOST_PLUGIN), ("-cuda", PLUGIN)):
            (folder / f"liblockstep-engine{name}.so").symlink_to(plugin)

    def train(self, count=2, all_reduce="Auto", *arguments, workers=WORKERS):
        variables = [(name, os.environ[name]) for name in POD_VARIABLES if name in os.environ]
        manifest = nccl_test.manifest_with(all_reduce, variables=variables, workers=workers,
                                           steps=STEPS)
        names = ", ".join(f'"GPU-test-{i}"' for i in range(count))
        return self.run_job(manifest, "--runtime", str(self.runtime),
                            "--set", f"training.devices=[{names}]", *arguments)

    def on_the_cpu(self, replicas):
        run = self.run_job(training_manifest(workers=WORKERS, steps=STEPS),
                           "--runtime", str(self.runtime),
                           "--set", f"training.replicas={replicas}")
        self.assert_trained(run)
        return run

    def assert_by(self, run, backend, workers=WORKERS):
        for index in range(workers):
            self.assertIn(f"backend={backend}", run.pod_log(f"quick-worker-{index}"))

    def assert_same_model(self, run, other):
        for name in ("loss", "testLoss"):
            self.assertAlmostEqual(run.summary[name], other.summary[name],
                                   delta=LOSS_TOLERANCE * other.summary[name], msg=name)


class AutoTakesNccl(DevicesCase):
    def test_sums_over_all_gpus_of_all_workers_where_they_are(self):
        with gpus(2):
            run = self.train()
        self.assert_trained(run)
        self.assert_by(run, "nccl")
        log = run.pod_log("quick-worker-1")
        self.assertRegex(log, r"on GPU-[0-9a-f-]{36}, GPU-[0-9a-f-]{36}")
        self.assertNotIn(MISSED, log)
        self.assert_same_model(run, self.on_the_cpu(replicas=2))

    def test_sums_over_the_gpus_of_a_lone_worker(self):
        with gpus(2):
            run = self.train(workers=1)
        self.assert_trained(run)
        self.assert_by(run, "nccl", workers=1)

    def test_sums_where_each_worker_has_one(self):
        with gpus(1):
            run = self.train(count=1)
        self.assert_trained(run)
        self.assert_by(run, "nccl")
        self.assert_same_model(run, self.on_the_cpu(replicas=1))

    def test_worker_killed_in_the_midst_of_a_sum_is_replaced(self):
        """The third of NCCL's four ranks: the first GPU of the second worker."""
        once = self.scratch / "once"
        with gpus(2):
            undisturbed = self.train()
            self.assert_trained(undisturbed)
        with gpus(2, FAKE_NCCL_FAULT=f"die@rank=2@call=20@once={once}"):
            run = self.train()
        self.assertTrue(once.exists(), "the fault did not happen")
        self.assert_trained(run, recoveries=1)
        self.assert_by(run, "nccl")
        told = [what for pod, what, _ in self.errors(run) if pod == "quick-worker-0"]
        self.assertTrue(told, run.pod_log("quick-worker-0"))
        self.assertRegex(told[0], r"rank 1 is (gone|lost)")
        self.assertEqual(self.final_weights(run), self.final_weights(undisturbed))


class AutoTakesTheCpu(DevicesCase):
    """Where something is in the way, which all workers say, in one word and a sentence."""

    def check(self, word, sentence, run):
        self.assert_trained(run)
        self.assert_by(run, "shared-memory")
        for index in range(WORKERS):
            log = run.pod_log(f"quick-worker-{index}")
            self.assertIn(MISSED, log)
            self.assertRegex(log, f"reason={word}.*{sentence}")

    def test_without_the_library(self):
        with gpus(2, release=None):
            run = self.train()
        self.check("no-library", "rank 0: libnccl.so.2", run)
        self.assert_same_model(run, self.on_the_cpu(replicas=2))

    def test_with_a_library_that_only_blocks(self):
        with gpus(2, release="2.13"):
            self.check("old-library", "which cannot join ranks without blocking", self.train())

    def test_where_waits_would_have_no_end(self):
        with gpus(2, NCCL_COMM_BLOCKING="1"):
            self.check("may-block", "NCCL_COMM_BLOCKING=1", self.train())

    def test_where_workers_share_gpus(self):
        with gpus(2, FAKE_CUDA_UUID="7"):
            self.check("shared-gpu", "rank 0 and rank 1 would both use GPU-0700", self.train())

    def test_after_joining_has_failed_once(self):
        """Nobody is replaced for that: all meet again and do without."""
        once = self.scratch / "once"
        with gpus(2, FAKE_NCCL_FAULT=f"fail-init@rank=3@once={once}"):
            run = self.train()
        self.assertTrue(once.exists(), "the fault did not happen")
        self.check("failed-to-join", r"rank 1 could not join with NCCL: NCCL says on GPU-\S+: "
                   r"unhandled cuda error \(.*\) \(ordered: the device does not join\)", run)
        self.assertEqual(len(run.summary["pods"]), WORKERS, run.output)

    def test_after_the_ways_between_gpus_have_failed_once(self):
        """NCCL finds them at its first sum, which joining makes."""
        once = self.scratch / "once"
        with gpus(2, FAKE_NCCL_FAULT=f"async-error@rank=3@call=0@once={once}"):
            run = self.train()
        self.assertTrue(once.exists(), "the fault did not happen")
        self.check("failed-to-join",
                   "rank 1 could not join with NCCL: .*the connection to a peer broke", run)
        self.assertEqual(len(run.summary["pods"]), WORKERS, run.output)

    def test_after_sums_as_large_as_a_bucket_found_no_way(self):
        """NCCL connects for an algorithm at the first sum of its size: joining makes one each."""
        once = self.scratch / "once"
        with gpus(2, FAKE_NCCL_FAULT=f"no-way@rank=3@bytes=1000@once={once}"):
            run = self.train()
        self.assertTrue(once.exists(), "the fault did not happen")
        self.check("failed-to-join", r"rank 1 could not join with NCCL: a test sum of \d+ bytes, "
                   r"the size of a bucket of this job, failed: .*no way between GPUs for such a "
                   "sum", run)
        self.assertEqual(len(run.summary["pods"]), WORKERS, run.output)

    def test_after_a_call_to_the_system_has_failed_once(self):
        once = self.scratch / "once"
        with gpus(2, FAKE_NCCL_FAULT=f"system-error@rank=3@call=0@once={once}"):
            run = self.train()
        self.assertTrue(once.exists(), "the fault did not happen")
        self.check("failed-to-join", r"rank 1 could not join with NCCL: .*no space left in /dev/shm"
                   r".*All ranks are alive", run)
        self.assertEqual(len(run.summary["pods"]), WORKERS, run.output)

    def test_cpu_is_what_a_job_may_ask_for(self):
        with gpus(2):
            run = self.train(all_reduce="Cpu")
        self.assert_trained(run)
        self.assert_by(run, "shared-memory")
        self.assertNotIn(MISSED, run.pod_log("quick-worker-0"))


class InsistsOnNccl(DevicesCase):
    def test_sums_where_they_are_or_fails(self):
        with gpus(2):
            run = self.train(all_reduce="Nccl")
        self.assert_trained(run)
        self.assert_by(run, "nccl")
        with gpus(2, release=None):
            run = self.train(all_reduce="Nccl")
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("Nccl is set, but libnccl.so.2", run.output)

    def test_machine_whose_system_refuses_ends_the_job_and_says_what_to_look_at(self):
        """Before it was taken for a lost peer: all met 20 times, and then heard of no reason."""
        with gpus(2, FAKE_NCCL_FAULT="system-error@rank=3@call=0"):
            run = self.train(2, "Nccl", "--set", "runPolicy.backoffLimit=0")
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("no space left in /dev/shm", run.output)
        self.assertIn("All ranks are alive, so a system call on this machine", run.output)
        self.assertLess(run.pod_log("quick-worker-0").count("all ranks joined"), 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
