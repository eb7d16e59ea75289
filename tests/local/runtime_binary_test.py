"""lockstep-runtime is copied into other people's images: what it needs there, and what it says.
`lockstep` is copied onto other people's machines and needs no more."""

import fcntl
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest

from harness import BIN, LocalTest, training_manifest

RUNTIME = BIN / "lockstep-runtime"
PORTABLE = (RUNTIME, BIN / "lockstep")
GLIBC_MAX = (2, 34)
STRIPPED_BYTES_MAX = 15 * 1024 * 1024
GLIBC_PARTS = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
               "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


class SharedLibraries(unittest.TestCase):
    def test_needs_nothing_but_glibc(self):
        for program in PORTABLE:
            with self.subTest(program.name):
                dynamic = subprocess.run(["objdump", "-p", program], capture_output=True,
                                         text=True, check=True).stdout
                needed = set(re.findall(r"NEEDED\s+(\S+)", dynamic))
                self.assertIn("libc.so.6", needed)
                self.assertEqual(needed - GLIBC_PARTS, set())

    def test_no_symbol_newer_than_glibc_2_34(self):
        for program in PORTABLE:
            with self.subTest(program.name):
                symbols = subprocess.run(["objdump", "-T", program], capture_output=True,
                                         text=True, check=True).stdout
                versions = re.findall(r"GLIBC_(\d+)\.(\d+)\S*\)?\s+(\S+)", symbols)
                self.assertTrue(versions)
                newer = [f"{name} (GLIBC_{major}.{minor})" for major, minor, name in versions
                         if (int(major), int(minor)) > GLIBC_MAX]
                self.assertEqual(newer, [])

    def test_stripped_size(self):
        with tempfile.NamedTemporaryFile(prefix="lockstep-test-") as stripped:
            subprocess.run(["strip", "-o", stripped.name, RUNTIME], check=True)
            self.assertLess(os.path.getsize(stripped.name), STRIPPED_BYTES_MAX)


class Messages(LocalTest):
    def environment_of_worker_0(self):
        manifest = self.scratch / "job.yaml"
        manifest.write_text(training_manifest(workers=1))
        rendered = subprocess.run([BIN / "lockstep", "render", manifest, "--output", "json"],
                                  capture_output=True, text=True, check=True).stdout
        variables = json.loads(rendered)["pods"][0]["env"]
        variables["LOCKSTEP_TERMINATION_MESSAGE_FILE"] = str(self.scratch / "last-words")
        variables.pop("LOCKSTEP_JOB_KEY_FILE", None)
        return {**os.environ, **variables}

    def test_an_interpreter_cannot_be_kept_for_another_command(self):
        for module, program, reason in (("torch", "torchrun", "python3 [-u] SCRIPT.py"),
                                        ("torch-xla", "python3", "torch-xla")):
            words = ["--warm", module, "--", program, "a.py"]
            ran = subprocess.run([RUNTIME, "run", *words], capture_output=True, text=True)
            self.assertEqual(ran.returncode, 64, ran.stderr)
            self.assertIn(reason, ran.stderr)

    def test_version(self):
        ran = subprocess.run([RUNTIME, "--version"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0)
        self.assertRegex(ran.stdout, r"^lockstep-runtime \d+\.\d+\.\d+\n$")

    def test_train_without_the_engine_says_what_to_install(self):
        environment = self.environment_of_worker_0()
        environment["LOCKSTEP_ENGINE"] = str(self.scratch / "no-engine.so")
        ran = subprocess.run([RUNTIME, "train"], env=environment, capture_output=True, text=True,
                             timeout=60)
        self.assertEqual(ran.returncode, 64, ran.stderr)
        self.assertIn("libtorch", ran.stderr)
        self.assertIn("libopenblas0-pthread", ran.stderr)
        self.assertIn("libtorch", (self.scratch / "last-words").read_text())

    def test_train_on_a_gpu_says_what_is_missing(self):
        environment = self.environment_of_worker_0()
        training = json.loads(environment["LOCKSTEP_TRAINING"])
        training["devices"] = ["GPU-a"]
        environment["LOCKSTEP_TRAINING"] = json.dumps(training)
        environment["NVIDIA_VISIBLE_DEVICES"] = "GPU-a"
        environment.pop("LOCKSTEP_ENGINE", None)
        ran = subprocess.run([RUNTIME, "train"], env=environment, capture_output=True, text=True,
                             timeout=60)
        if "spec.training.devices: GPU-a not found" in ran.stderr:
            self.skipTest("this machine has GPUs and their driver")
        self.assertEqual(ran.returncode, 64, ran.stderr)
        if (BIN / "liblockstep-engine-cuda.so").exists():
            self.assertIn("no CUDA device is visible: ", ran.stderr)
        else:
            self.assertIn("liblockstep-engine-cuda.so was not found", ran.stderr)
            self.assertIn("scripts/install.sh cuda torch", ran.stderr)

    def test_train_outside_a_job_names_the_missing_variables(self):
        ran = subprocess.run([RUNTIME, "train"], env={}, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 64)
        self.assertIn("LOCKSTEP_JOB", ran.stderr)

    def test_devices_come_from_the_device_plugin_where_no_driver_is(self):
        environment = {"NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b", "LOCKSTEP_PROCESSES": "3"}
        ran = subprocess.run([RUNTIME, "devices"], env=environment, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        if "00000000:" in ran.stdout:
            self.skipTest("this machine has GPUs and their driver")
        self.assertEqual(ran.stdout, "GPU-a  -  local ranks 0 2\nGPU-b  -  local ranks 1\n")

    def test_each_process_is_given_its_devices_by_name(self):
        environment = self.environment_of_worker_0()
        environment["NVIDIA_VISIBLE_DEVICES"] = "GPU-a,GPU-b"
        ran = subprocess.run([RUNTIME, "run", "--no-prefix", "--", "env"], env=environment,
                             capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("CUDA_VISIBLE_DEVICES=GPU-a,GPU-b\n", ran.stdout)
        self.assertIn("CUDA_DEVICE_ORDER=PCI_BUS_ID\n", ran.stdout)

    def test_unknown_subcommand_is_a_usage_error(self):
        ran = subprocess.run([RUNTIME, "dance"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 64)
        self.assertIn("--help", ran.stderr + ran.stdout)


class Trainer(LocalTest):
    """What a rank says of its own input, and how it hears of a stop, whatever its peers do."""

    def train(self, variables, workers=1, **manifest):
        """Runs rank 0 alone; returns (exit code, termination message)."""
        file = self.scratch / "job.yaml"
        file.write_text(training_manifest(workers=workers, **manifest))
        rendered = subprocess.run([BIN / "lockstep", "render", file, "--output", "json"],
                                  capture_output=True, text=True, check=True).stdout
        last_words = self.scratch / "last-words"
        last_words.unlink(missing_ok=True)
        environment = {
            **os.environ,
            **json.loads(rendered)["pods"][0]["env"],
            "LOCKSTEP_TERMINATION_MESSAGE_FILE": str(last_words),
            "LOCKSTEP_CHECKPOINT_DIR": str(self.scratch / "checkpoints"),
            # Far above what a rank needs to find its own fault.
            "LOCKSTEP_RENDEZVOUS_TIMEOUT_SECONDS": "20",
            **variables,
        }
        environment.pop("LOCKSTEP_JOB_KEY_FILE", None)
        ran = subprocess.run([RUNTIME, "train"], env=environment, capture_output=True, text=True,
                             timeout=60)
        said = json.loads(last_words.read_text()) if last_words.exists() else {}
        return ran.returncode, said

    def assert_own_fault(self, ran, *words):
        code, said = ran
        self.assertEqual(code, 64, said)
        self.assertEqual(said["outcome"], "permanent")
        for word in words:
            self.assertIn(word, said["reason"])

    def broken_data(self, content=None):
        """A data set whose images are `content`; None: a folder."""
        folder = self.scratch / "data"
        folder.mkdir(exist_ok=True)
        for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
            (folder / name).unlink(missing_ok=True)
            if content is None:
                (folder / name).mkdir()
            else:
                (folder / name).write_bytes(content)
        return folder

    def test_data_that_is_a_folder_is_the_ranks_own_fault(self):
        self.assert_own_fault(self.train({}, mnist=self.broken_data()), "Is a directory")

    def test_an_absurd_header_is_the_ranks_own_fault(self):
        header = bytes([0, 0, 8, 3]) + b"\xff\xff\xff\xff" * 3
        self.assert_own_fault(self.train({}, mnist=self.broken_data(header)), "t10k-")

    def test_a_checkpoint_folder_below_a_file_is_the_ranks_own_fault(self):
        file = self.scratch / "file"
        file.write_text("")
        ran = self.train({"LOCKSTEP_CHECKPOINT_DIR": str(file / "checkpoints")})
        self.assert_own_fault(ran, "exists and is not a folder", str(file))

    def test_its_own_fault_is_told_while_its_peers_are_not_there(self):
        header = bytes([0, 0, 8, 3]) + b"\xff\xff\xff\xff" * 3
        ran = self.train({}, workers=2, mnist=self.broken_data(header))
        self.assert_own_fault(ran, "t10k-")

    def test_a_stop_while_it_starts_is_heard(self):
        # The driver's library is the first thing that takes time; this one has the process told to
        # end meanwhile. Without a handler that is the end of a process, and nothing to the first
        # one of a container.
        library = BIN / "liblockstep_test_nvml.so"
        self.assertTrue(library.exists(), "build the target lockstep_test_nvml")
        (self.scratch / "libnvidia-ml.so.1").symlink_to(library)
        code, said = self.train({"LD_LIBRARY_PATH": str(self.scratch),
                                 "LOCKSTEP_TEST_NVML_SIGTERM": "1"}, workers=2)
        self.assertEqual(code, 143)
        self.assertEqual(said.get("reason"), "stopped on request")


class Leaving(LocalTest):
    """Ranks that are asked to go while the others stay."""

    EVERY = 300  # steps between the checkpoints that nobody asks for

    def start_training(self):
        started = self.start(
            training_manifest(workers=2, steps=1000000, every_steps=self.EVERY))
        self.wait_for(lambda: self.checkpoints(started))
        return started

    def checkpoints(self, started):
        """The steps of the run's checkpoints, oldest first."""
        _, directory, _ = started
        return sorted(int(entry.name.removeprefix("step-"))
                      for entry in (directory / "checkpoints").glob("step-*"))

    def is_asked_for(self, started):
        return any(step % self.EVERY != 0 for step in self.checkpoints(started))

    def test_a_chief_that_leaves_alone_writes_a_checkpoint(self):
        started = self.start_training()
        process, directory, _ = started
        try:
            # Who is asked at the very step of a checkpoint has nothing to write: then another is.
            for _ in range(5):
                chief = self.pid_of(directory, "quick-worker-0")
                known = self.checkpoints(started)[-1]
                os.kill(chief, signal.SIGTERM)
                self.wait_for(lambda pid=chief: not os.path.exists(f"/proc/{pid}"))
                if self.is_asked_for(started):
                    break
                self.wait_for(lambda step=known: self.checkpoints(started)[-1] > step)
            self.assertTrue(self.is_asked_for(started))
        finally:
            process.send_signal(signal.SIGINT)
            self.finish(started)

    def break_gang(self):
        """What rank 1 left behind, which lost the chief and was asked to go: whether it has written
        a checkpoint, and what it said."""
        started = self.start_training()
        process, directory, _ = started
        try:
            left = self.pid_of(directory, "quick-worker-1")
            os.kill(self.pid_of(directory, "quick-worker-0"), signal.SIGKILL)
            os.kill(left, signal.SIGTERM)
            self.wait_for(lambda: not os.path.exists(f"/proc/{left}"))
            return self.is_asked_for(started), self.pod_log(directory, "quick-worker-1")
        finally:
            process.send_signal(signal.SIGINT)
            self.finish(started)

    def test_whoever_is_left_of_a_broken_gang_writes_a_checkpoint(self):
        # Who loses the chief at the very step of a checkpoint has nothing to write.
        for _ in range(3):
            has_written, said = self.break_gang()
            if has_written:
                return
        self.fail(said)

    def test_whoever_is_left_saves_when_the_chief_dies_in_its_last_save(self):
        started = self.start_until_trained(
            training_manifest(workers=3, steps=1000000, every_steps=0))
        process, directory, _ = started
        folder = directory / "checkpoints"
        pids = [self.pid_of(directory, f"quick-worker-{index}") for index in range(3)]
        try:
            lock = os.open(folder, os.O_RDONLY)  # the last thing that a save takes
            fcntl.flock(lock, fcntl.LOCK_EX)
            for pid in pids:
                os.kill(pid, signal.SIGTERM)
            self.wait_for(lambda: list(folder.glob(".tmp-*-save/manifest.json")))
            os.kill(pids[0], signal.SIGKILL)
            os.close(lock)
            for pid in pids[1:]:
                self.wait_for(lambda pid=pid: not os.path.exists(f"/proc/{pid}"))
            self.assertTrue(self.checkpoints(started))
        finally:
            process.send_signal(signal.SIGINT)
            self.finish(started)

    def test_a_frozen_worker_does_not_hold_up_a_stop(self):
        started = self.start_training()
        process, directory, _ = started
        os.kill(self.pid_of(directory, "quick-worker-1"), signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        self.finish(started)
        self.assertTrue(self.is_asked_for(started))


class Install(LocalTest):
    """What an init container does in front of a user's own image."""

    def install(self, directory, **options):
        return subprocess.run([RUNTIME, "install", directory], capture_output=True, text=True,
                              timeout=60, **options)

    def test_the_copy_is_whole_executable_by_all_and_alone(self):
        ran = self.install(self.scratch, umask=0o077)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        copy = self.scratch / "lockstep-runtime"
        self.assertIn(str(copy), ran.stderr)
        self.assertEqual([entry.name for entry in self.scratch.iterdir()], [copy.name])
        self.assertEqual(copy.stat().st_mode & 0o7777, 0o755)
        self.assertEqual(copy.read_bytes(), RUNTIME.read_bytes())
        version = subprocess.run([copy, "--version"], capture_output=True, text=True, check=True)
        self.assertIn("lockstep-runtime", version.stdout)

    def test_a_copy_that_runs_is_replaced_and_goes_on(self):
        self.assertEqual(self.install(self.scratch).returncode, 0)
        copy = self.scratch / "lockstep-runtime"
        gate = self.scratch / "gate"
        os.mkfifo(gate)
        program = ["sh", "-c", f"echo waiting; cat {gate}"]
        with subprocess.Popen([copy, "run", "--", *program], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as running:
            running.stdout.readline()
            before = copy.stat().st_ino
            self.assertEqual(self.install(self.scratch).returncode, 0)
            self.assertNotEqual(copy.stat().st_ino, before)
            gate.write_bytes(b"after\n")
            rest, _ = running.communicate(timeout=60)
            self.assertIn(b"after", rest)
        self.assertEqual(running.returncode, 0)

    def test_a_folder_that_is_not_there_is_named(self):
        ran = self.install(self.scratch / "absent")
        self.assertEqual(ran.returncode, 64)
        self.assertIn(f"create a file in {self.scratch}/absent", ran.stderr)
        self.assertIn("No such file or directory", ran.stderr)

    def test_a_full_disk_can_be_tried_again_and_leaves_nothing(self):
        directory = self.scratch / "small"
        directory.mkdir()
        own_mounts = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
        mount = f"mount -t tmpfs -o size=1m none {directory}"
        if subprocess.run([*own_mounts, mount], capture_output=True).returncode != 0:
            self.skipTest("user namespaces with mounts of their own are not allowed here")
        script = f"{mount} && {{ {RUNTIME} install {directory}; echo $?; ls -A {directory}; }}"
        ran = subprocess.run([*own_mounts, script], capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.stdout, "75\n")
        self.assertIn("No space left on device", ran.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
