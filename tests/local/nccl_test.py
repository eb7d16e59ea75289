"""Trainings whose gradients go through NCCL: the double of it, over memory that processes share,
and the double of a GPU's driver. Whatever goes wrong, training goes on at the next epoch and ends
in the weights that the CPU's way comes to, to the byte.

LOCKSTEP_NCCL_KILLS sets how many workers are killed at random moments (default 4), LOCKSTEP_SEED
where chance begins.
"""

import contextlib
import ctypes
import os
import pathlib
import random
import re
import signal
import subprocess
import time
import unittest
from unittest import mock

from harness import BIN, LocalTest, training_manifest

DOUBLES = BIN / "doubles"
WORKERS = 3
STEPS = 200
TIMEOUT_SECONDS = 2
LATE_SECONDS = 2  # how much later a busy machine may tell: far from the timeouts of others, 30 s
KILLS = int(os.environ.get("LOCKSTEP_NCCL_KILLS", "4"))
KILLS_A_RUN = 4
SEED = int(os.environ.get("LOCKSTEP_SEED", "1"))

# An error of a sum, or of joining, as a rank tells it: "..., after 0.3 s" or "after 0.3 s: ...".
TOLD = re.compile(r"the rendezvous has ended.* error=\"(rank \d+: .*after ([\d.]+) s.*)\"")


def manifest_with(all_reduce, fault=None, variables=(), timeout=TIMEOUT_SECONDS, **changes):
    """A training that sums so; `fault` is for the double of NCCL, `variables` are (name, value)."""
    text = training_manifest(**{"workers": WORKERS, "steps": STEPS, **changes})
    text += f"    communication: {{allReduce: {all_reduce}, timeoutSeconds: {timeout}}}\n"
    if fault:
        variables = [*variables, ("FAKE_NCCL_FAULT", fault)]
    if variables:
        env = ", ".join(f"{{name: {name}, value: '{value}'}}" for name, value in variables)
        template = f"    template: {{spec: {{containers: [{{name: trainer, env: [{env}]}}]}}}}\n"
        text = text.replace("  runPolicy:", template + "  runPolicy:", 1)
    return text


def has_gpu():
    with contextlib.suppress(OSError):
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    return False


@contextlib.contextmanager
def doubles(release="2.30"):
    """Programs find the doubles in place of driver and NCCL, as the system's loader finds any."""
    folders = [DOUBLES / "cuda", DOUBLES / f"nccl-{release}"]
    for folder in folders:
        assert folder.is_dir(), "build the targets lockstep_fake_cuda and lockstep_fake_nccl"
    path = ":".join(str(folder) for folder in folders)
    with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": path}):
        yield


class NcclCase(LocalTest):
    cpu_weights = {}  # by steps

    def weights_of_the_cpu(self, steps=STEPS):
        if steps not in self.cpu_weights:
            run = self.run_job(manifest_with("Cpu", steps=steps))
            self.assert_trained(run)
            self.cpu_weights[steps] = self.final_weights(run)
        return self.cpu_weights[steps]

    def logs(self, run):
        return {folder.name: (folder / "pod.log").read_text(errors="replace")
                for folder in sorted((run.directory / "pods").iterdir())}

    def assert_trained_by_nccl(self, run, recoveries=0, steps=STEPS):
        self.assert_trained(run, recoveries)
        for pod, log in self.logs(run).items():
            if "gradient sums are set up" in log:
                self.assertIn("backend=nccl", log, pod)
                self.assertNotIn("backend=shared-memory", log, pod)
        self.assertEqual(self.final_weights(run), self.weights_of_the_cpu(steps))

    def errors(self, run):
        """(pod, what it says went wrong, after so many seconds) of each meeting that broke."""
        return [(pod, match[1], float(match[2]))
                for pod, log in self.logs(run).items() for match in TOLD.finditer(log)]


class NcclTraining(NcclCase):
    def test_ends_in_the_weights_of_the_cpu(self):
        for release in ("2.17", "2.30"):
            with self.subTest(release=release), doubles(release):
                run = self.run_job(manifest_with("Nccl"))
                self.assert_trained_by_nccl(run)
                log = run.pod_log("quick-worker-1")
                self.assertIn(f"NCCL {release}.", log)
                self.assertIn("on GPU-", log)

    def test_killed_worker_is_replaced(self):
        with doubles():
            run = self.run_job(manifest_with("Nccl"), "--chaos", "kill=worker-1@step=25")
        self.assert_trained_by_nccl(run, recoveries=1)
        names = {pod["name"] for pod in run.summary["pods"]}
        self.assertEqual(names, {"quick-worker-0", "quick-worker-1", "quick-worker-1-r1",
                                 "quick-worker-2"})

    def test_frozen_worker_is_replaced(self):
        with doubles():
            run = self.run_job(manifest_with("Nccl", timeout=30),
                               "--chaos", "stop=worker-1@step=25")
        self.assert_trained_by_nccl(run, recoveries=1)

    def test_auto_is_the_cpu_where_gradients_are_in_host_memory(self):
        with doubles():
            run = self.run_job(manifest_with("Auto"))
        self.assert_trained(run)
        self.assertIn("backend=shared-memory", run.pod_log("quick-worker-0"))

    def test_lone_worker_uses_nccl_too(self):
        with doubles():
            run = self.run_job(manifest_with("Nccl", workers=1, steps=40))
        self.assert_trained(run)
        self.assertIn("backend=nccl", run.pod_log("quick-worker-0"))


class NcclFaults(NcclCase):
    """Each happens once, on worker 1 unless it says otherwise; cause as the survivors tell it."""

    def check(self, fault, cause, incarnations=2, within=TIMEOUT_SECONDS, release="2.30"):
        once = self.scratch / "once"
        with doubles(release):
            run = self.run_job(manifest_with("Nccl", fault=f"{fault}@once={once}"))
        self.assertTrue(once.exists(), "the fault did not happen")
        self.assert_trained_by_nccl(run, recoveries=incarnations - 1)
        pods = [pod["name"] for pod in run.summary["pods"] if "worker-1" in pod["name"]]
        self.assertEqual(len(pods), incarnations, run.output)
        self.assertEqual(len(run.summary["pods"]), WORKERS + incarnations - 1, run.output)
        told = self.errors(run)
        for survivor in ("quick-worker-0", "quick-worker-2"):
            mine = [(what, seconds) for pod, what, seconds in told if pod == survivor]
            self.assertTrue(mine, f"{survivor} says nothing: {self.logs(run)[survivor]}")
            for what, seconds in mine:
                self.assertRegex(what, cause)
                self.assertLessEqual(seconds, within + LATE_SECONDS)

    def test_dies_in_the_midst_of_a_sum(self):
        self.check("die@rank=1@call=70", "rank 1 is lost")

    def test_sum_fails_beside_the_call(self):
        self.check("async-error@rank=1@call=70", "ordered: the connection to a peer broke|"
                   "rank 1 is lost", incarnations=1)

    def test_sum_is_refused(self):
        self.check("refuse@rank=1@call=70", "ordered: this sum is refused|rank 1 is lost")

    def test_sum_hangs(self):
        for release in ("2.27", "2.30"):
            with self.subTest(release=release):
                (self.scratch / "once").unlink(missing_ok=True)
                self.check("hang@rank=1@call=70", "deadline passed|rank \\d is lost",
                           incarnations=1, release=release)

    def test_device_does_not_join(self):
        self.check("fail-init@rank=1", "ordered: the device does not join|rank 1 is lost",
                   within=60)

    def test_no_identity(self):
        once = self.scratch / "once"
        with doubles():
            run = self.run_job(manifest_with("Nccl", fault=f"no-identity@once={once}"))
        self.assert_trained_by_nccl(run)
        self.assertIn("rank 0 could not get a unique id from NCCL; NCCL says",
                      run.pod_log("quick-worker-1"))

    def test_joining_takes_its_time(self):
        with doubles():
            run = self.run_job(manifest_with("Nccl", fault="slow-init@rank=1@ms=500"))
        self.assert_trained_by_nccl(run)
        self.assertEqual(len(run.summary["pods"]), WORKERS, run.output)

    def test_abort_that_hangs_costs_the_process(self):
        """The survivor whose NCCL does not let go cannot join again: it is replaced, too."""
        once, stuck = self.scratch / "once", self.scratch / "stuck"
        fault = f"die@rank=1@call=70@once={once};stuck-abort@rank=2@once={stuck}"
        with doubles("2.27"):
            run = self.run_job(manifest_with("Nccl", fault=fault))
        self.assertTrue(stuck.exists())
        self.assert_trained_by_nccl(run, recoveries=1)


class NcclRefused(NcclCase):
    def assert_refused(self, run, *words):
        self.assertEqual(run.exit_code, 1, run.output)
        for word in words:
            self.assertIn(word, run.output)
        self.assertEqual(len(run.summary["pods"]), WORKERS, "tried again")

    def test_without_a_gpu(self):
        if has_gpu():
            self.skipTest("there is a GPU here")
        run = self.run_job(manifest_with("Nccl"))
        self.assert_refused(run, "spec.training.communication.allReduce: Nccl is set, but "
                            "there is no NVIDIA driver here", "Auto and Cpu train without NCCL")

    def test_with_a_driver_and_no_nccl(self):
        folder = DOUBLES / "cuda"
        with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": str(folder)}):
            run = self.run_job(manifest_with("Nccl"))
        self.assert_refused(run, "Nccl is set, but libnccl.so.2")

    def test_with_an_nccl_that_only_blocks(self):
        with doubles("2.13"):
            run = self.run_job(manifest_with("Nccl"))
        self.assert_refused(run, "is NCCL 2.13.4, which cannot join ranks without blocking")

    def test_when_waits_would_have_no_end(self):
        with doubles():
            run = self.run_job(manifest_with("Nccl", variables=[("NCCL_COMM_BLOCKING", "1")]))
        self.assert_refused(run, "NCCL_COMM_BLOCKING: 1 found, expected 0 or no value: with "
                            "allReduce: Nccl")

    def test_auto_and_cpu_train_without(self):
        for all_reduce in ("Auto", "Cpu"):
            run = self.run_job(manifest_with(all_reduce, steps=40))
            self.assert_trained(run)
            self.assertIn("backend=shared-memory", run.pod_log("quick-worker-0"))


class Doctor(NcclCase):
    def ask(self, **variables):
        """(exit code, {what: what is said of it})"""
        ran = subprocess.run([BIN / "lockstep-runtime", "doctor"], capture_output=True, text=True,
                             env={**os.environ, **variables}, timeout=60, check=False)
        self.assertEqual(ran.stderr, "")
        return ran.returncode, dict(line.split(None, 1) for line in ran.stdout.splitlines())

    def test_with_everything(self):
        with doubles("2.28"):
            code, said = self.ask()
        self.assertEqual(code, 0, said)
        self.assertRegex(said["gpu"], r"^GPU-[0-9a-f-]{36}, the first of 1 visible$")
        self.assertRegex(said["nccl"], r"^NCCL 2\.28\.9 \(.*\): split, shrink, window, revoke$")
        self.assertRegex(said["join"], r"^created a communicator of one rank in [\d.]+ s$")
        self.assertIn("Nccl works here", said["verdict"])

    def test_without_a_gpu(self):
        with doubles("2.28"):
            code, said = self.ask(FAKE_CUDA_DEVICES="0")
        self.assertEqual(code, 0, said)
        self.assertEqual(said["gpu"], "no GPU is visible to this process")
        self.assertIn("Nccl does not work here; Auto and Cpu do", said["verdict"])

    def test_what_is_there_and_does_not_work_is_an_error(self):
        with doubles("2.28"):
            code, said = self.ask(FAKE_NCCL_FAULT="fail-init")
        self.assertEqual(code, 70, said)
        self.assertIn("NCCL says: unhandled cuda error", said["join"])


class NcclKills(NcclCase):
    STEPS = 1500

    def test_workers_killed_at_random_moments(self):
        chance = random.Random(SEED)
        killed = 0
        while killed < KILLS:
            kills = min(KILLS_A_RUN, KILLS - killed)
            with self.subTest(seed=SEED, killed=killed), doubles(chance.choice(["2.27", "2.30"])):
                started = self.start(manifest_with("Nccl", steps=self.STEPS, backoff_limit=100))
                done = sum(self.kill_one(started, chance) for _ in range(kills))
                run = self.finish(started)
                self.assert_trained_by_nccl(run, steps=self.STEPS)
                for pod, what, seconds in self.errors(run):
                    self.assertRegex(what, r"rank \d (is lost|reported)", pod)
                    self.assertLessEqual(seconds, TIMEOUT_SECONDS + LATE_SECONDS, what)
                self.assertGreater(done, 0, "the run was over before the first kill")
            killed += max(1, done)  # a run that is over too soon fails, and does not repeat
        print(f"{killed} workers killed")

    def kill_one(self, started, chance):
        """Kills a worker after a moment. Whether one was left to kill."""
        process, directory, _ = started
        time.sleep(chance.uniform(0, 0.8))
        victims = self.trainers(directory)
        if process.poll() is not None or not victims:
            return 0
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(victims), signal.SIGKILL)
            return 1
        return 0

    @staticmethod
    def trainers(directory):
        """The processes of a run's workers."""
        pids = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    variables = (entry / "environ").read_bytes()
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    if (b"LOCKSTEP_POD=" in variables and str(directory).encode() in variables
                            and b"train" in words):
                        pids.append(int(entry.name))
        return sorted(pids)


if __name__ == "__main__":
    unittest.main(verbosity=2)
