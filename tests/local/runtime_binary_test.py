"""lockstep-runtime is copied into other people's images: what it needs there, and what it says."""

import json
import os
import re
import subprocess
import tempfile
import unittest

from harness import BIN, LocalTest, training_manifest

RUNTIME = BIN / "lockstep-runtime"
GLIBC_MAX = (2, 34)
STRIPPED_BYTES_MAX = 15 * 1024 * 1024
GLIBC_PARTS = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
               "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


class SharedLibraries(unittest.TestCase):
    def test_needs_nothing_but_glibc(self):
        dynamic = subprocess.run(["objdump", "-p", RUNTIME], capture_output=True, text=True,
                                 check=True).stdout
        needed = set(re.findall(r"NEEDED\s+(\S+)", dynamic))
        self.assertIn("libc.so.6", needed)
        self.assertEqual(needed - GLIBC_PARTS, set())

    def test_no_symbol_newer_than_glibc_2_34(self):
        symbols = subprocess.run(["objdump", "-T", RUNTIME], capture_output=True, text=True,
                                 check=True).stdout
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
