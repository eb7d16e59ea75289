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

    def test_unknown_subcommand_is_a_usage_error(self):
        ran = subprocess.run([RUNTIME, "dance"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 64)
        self.assertIn("--help", ran.stderr + ran.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
