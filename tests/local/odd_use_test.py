"""`lockstep` where people and shells use it in ways that nobody draws on a slide."""

import os
import resource
import shutil
import signal
import stat
import subprocess
import unittest

from harness import (BIN, RUN_TIMEOUT_SECONDS, LocalTest, can_mount_tmpfs, command_manifest,
                     small_disk, training_manifest)


class OddUse(LocalTest):
    def setUp(self):
        super().setUp()
        self.manifest = self.scratch / "job.yaml"
        self.manifest.write_text(command_manifest(["sh", "-c", "echo hello; sleep 0.5"]))

    def lockstep(self, *words, **options):
        """Starts it in the scratch folder."""
        return subprocess.Popen([BIN / "lockstep", *words], cwd=self.scratch, text=True,
                                stdin=subprocess.DEVNULL,
                                **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT,
                                   **options})

    def end_of(self, process):
        output, _ = process.communicate(timeout=RUN_TIMEOUT_SECONDS)
        return process.returncode, output

    def shell(self, command):
        return self.end_of(subprocess.Popen(
            ["bash", "-c", command], cwd=self.scratch, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}))

    def runs(self):
        return sorted((self.scratch / "runs").iterdir())

    def test_runs_that_begin_in_one_second_have_a_folder_each(self):
        started = [self.lockstep("run", "job.yaml") for _ in range(4)]
        for exit_code, output in [self.end_of(process) for process in started]:
            self.assertEqual(exit_code, 0, output)
        self.assertEqual(len(self.runs()), 4)

    def test_closed_streams_take_nothing_into_files(self):
        exit_code, output = self.shell("lockstep run job.yaml --dir run >&- 2>&- <&-")
        self.assertEqual(exit_code, 0, output)
        for name in ("lock", "lockstep.log", "summary.json"):
            self.assertNotIn("pods listen on", (self.scratch / "run" / name).read_text(), name)

    def test_run_goes_on_when_its_reader_has_left(self):
        exit_code, output = self.shell("set -o pipefail; lockstep run job.yaml --dir run | head -1")
        self.assertEqual(exit_code, 0, output)
        self.assertEqual(output.count("\n"), 1)
        self.assertIn('"outcome": "succeeded"', (self.scratch / "run/summary.json").read_text())

    def test_output_that_cannot_be_written_is_no_success(self):
        for words in ("render job.yaml", "--help", "explain"):
            exit_code, output = self.shell(f"lockstep {words} >/dev/full")
            self.assertEqual(exit_code, 1, words)
            self.assertIn("writing to standard output: No space left on device", output)
        for words in ("validate job.yaml", "render job.yaml", "version"):
            exit_code, output = self.shell(f"lockstep {words} >&-")
            self.assertEqual(exit_code, 1, words)
            self.assertIn("writing to standard output: Bad file descriptor", output)

    def test_reader_that_has_left_ends_what_only_prints_by_signal(self):
        reading, writing = os.pipe()
        os.close(reading)
        try:
            for words in (["render", "job.yaml"], ["explain", "spec"], ["--help"], ["version"]):
                exit_code, _ = self.end_of(self.lockstep(*words, stdout=writing))
                self.assertEqual(exit_code, -signal.SIGPIPE, words)
        finally:
            os.close(writing)

    def test_verbose_tells_each_thing_once(self):
        exit_code, output = self.end_of(self.lockstep("run", "job.yaml", "--dir", "run", "-v"))
        self.assertEqual(exit_code, 0, output)
        for words in ("all 2 pods run", "create pod command-worker-1", "has accepted the job"):
            self.assertEqual(output.count(words), 1, output)
        self.assertIn("all 2 pods run", (self.scratch / "run/lockstep.log").read_text())

    def test_data_that_is_not_there_is_refused_before_anything_starts(self):
        self.manifest.write_text(
            training_manifest(workers=1).replace("t10k-labels", "nosuch-labels"))
        exit_code, output = self.end_of(self.lockstep("run", "job.yaml"))
        self.assertEqual(exit_code, 2, output)
        self.assertRegex(output, "^job.yaml: spec.training.dataset.labels: /.*/nosuch-labels.*: "
                                 "no such file, expected an IDX file\n$")
        self.assertFalse((self.scratch / "runs").exists())

    def test_tail_is_of_each_pod(self):
        exit_code, output = self.end_of(self.lockstep("run", "job.yaml", "--dir", "run"))
        self.assertEqual(exit_code, 0, output)
        exit_code, output = self.end_of(self.lockstep("logs", "run", "--tail", "1"))
        self.assertEqual(exit_code, 0, output)
        self.assertEqual([line.split("]")[0] for line in output.splitlines()],
                         ["[command-worker-0", "[command-worker-1"])

    def test_rank_that_leaves_too_early_is_named_before_whom_it_broke(self):
        self.manifest.write_text(command_manifest(
            ["sh", "-c", 'if [ "$RANK" = 1 ]; then exit 0; fi; '
             'until grep -qs command-worker-1 gone; do sleep 0.05; done; exit 3'],
            restart_policy="Never"))
        run = self.lockstep("run", "job.yaml", "--dir", "run")
        log = self.scratch / "run/lockstep.log"
        self.wait_for(lambda: log.exists() and "pod ended" in log.read_text())
        (self.scratch / "gone").write_text("command-worker-1")
        exit_code, output = self.end_of(run)
        self.assertEqual(exit_code, 1, output)
        self.assertRegex(output, "command-worker-1 had already ended with exit code 0\n"
                                 ".* command-worker-0 ended: exit code 3")
        self.assertRegex(output, r"  worker-1      exit code 0, .* s before the first failure")

    def test_what_can_never_be_due_or_found_is_refused_with_the_programs_name(self):
        for words, said in (
                (["run", "job.yaml", "--chaos", "kill=worker-1@step=5"],
                 "the job runs a command, which may not report steps"),
                (["run", "job.yaml", "--summary", "-"], "/dev/stdout"),
                (["run", "--resume", "nosuch"], "there is no run in runs/nosuch either")):
            exit_code, output = self.end_of(self.lockstep(*words))
            self.assertEqual(exit_code, 2, output)
            self.assertIn(said, output)
        self.assertTrue(output.startswith("lockstep: no run in nosuch"), output)
        self.assertFalse((self.scratch / "runs").exists())

    def test_nohup_outlives_the_terminal(self):
        process = self.lockstep("run", "job.yaml", "--dir", "run",
                                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for(lambda: list(self.scratch.glob("run/pods/*/pod.log")))
        process.send_signal(signal.SIGHUP)
        exit_code, output = self.end_of(process)
        self.assertEqual(exit_code, 0, output)

    def test_too_few_descriptors_make_pods_wait_for_each_other(self):
        (self.scratch / "many.yaml").write_text(command_manifest(["true"], workers=40))
        limit = (64, 64)
        exit_code, output = self.end_of(
            self.lockstep("run", "many.yaml", "--dir", "run",
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit)))
        self.assertEqual(exit_code, 0, output)
        self.assertIn("Too many open files; lockstep tries again", output)

    def test_summary_that_cannot_be_written_is_refused_at_once(self):
        os.link(self.manifest, self.scratch / "same.yaml")
        for file, problem in (("no/such.json", "its folder: No such file or directory"),
                              ("same.yaml", "the manifest of the job found, which would be "
                                            "overwritten"),
                              (".", "a folder found, expected a file")):
            exit_code, output = self.end_of(
                self.lockstep("run", "job.yaml", "--summary", file))
            self.assertEqual(exit_code, 2, output)
            self.assertIn(f"--summary {file}: {problem}", output)
        self.assertFalse((self.scratch / "runs").exists())

    def test_summary_may_go_to_a_device_which_stays_one(self):
        pipe = self.scratch / "pipe"
        os.mkfifo(pipe)
        exit_code, output = self.shell("timeout 60 cat pipe > got & "
                                       "lockstep run job.yaml --dir run --summary pipe --quiet; "
                                       "code=$?; wait; exit $code")
        self.assertEqual(exit_code, 0, output)
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
        self.assertIn('"outcome": "succeeded"', (self.scratch / "got").read_text())

    def test_run_is_resumed_by_its_name(self):
        exit_code, output = self.end_of(self.lockstep("run", "job.yaml"))
        self.assertEqual(exit_code, 0, output)
        name = self.runs()[0].name
        exit_code, output = self.end_of(self.lockstep("run", "--resume", name))
        self.assertEqual(exit_code, 0, output)
        self.assertIn("an earlier run in this folder succeeded", output)
        self.assertEqual(len(self.runs()), 1)

    def test_followed_logs_end_with_the_run(self):
        run = self.lockstep("run", "job.yaml", "--dir", "run", stdout=subprocess.DEVNULL)
        self.wait_for(lambda: list(self.scratch.glob("run/pods/*/pod.log")))
        exit_code, output = self.end_of(self.lockstep("logs", "--follow", "run"))
        self.assertEqual(exit_code, 0, output)
        self.assertEqual(sorted(output.splitlines()),
                         ["[command-worker-0] [rank 0] hello", "[command-worker-1] [rank 1] hello"])
        run.wait(timeout=RUN_TIMEOUT_SECONDS)

    def test_folder_that_goes_away_fails_the_run_with_words(self):
        process = self.lockstep("run", "job.yaml", "--dir", "run")
        self.wait_for(lambda: len(list(self.scratch.glob("run/pods/*/pod.log"))) == 2)
        self.remove_in_mid_run(self.scratch / "run")
        exit_code, output = self.end_of(process)
        self.assertEqual(exit_code, 1, output)
        self.assertIn("writing the summary: ", output)

    def remove_in_mid_run(self, folder):
        """A program that writes into it may put a file where others have just been removed."""

        def is_gone():
            shutil.rmtree(folder, ignore_errors=True)
            return not folder.exists()

        self.wait_for(is_gone)

    def test_want_of_threads_or_memory_is_told(self):
        for kibibytes in (18000, 20000):
            exit_code, output = self.shell(
                f"ulimit -v {kibibytes}; lockstep run job.yaml --dir run --timeout 20s")
            self.assertEqual(exit_code, 1, output)
            self.assertNotIn("terminate called", output)
            self.assertIn("lockstep: the machine ", output)
            self.assertFalse((self.scratch / "run/job.key").exists())

    def test_want_of_descriptors_is_told(self):
        for descriptors in range(11, 17):
            exit_code, output = self.shell(
                f"ulimit -n {descriptors}; lockstep run job.yaml --dir run --timeout 20s")
            self.assertEqual(exit_code, 1, output)
            self.assertNotIn("terminate called", output)
            self.assertIn("Too many open files", output)
            self.assertFalse((self.scratch / "run/job.key").exists())

    def test_want_of_memory_for_the_engine_is_told(self):
        """Threads need address space as well: which of them lacks it depends on the moment."""
        self.manifest.write_text(training_manifest(workers=1, backoff_limit=0))
        exit_code, output = self.shell("ulimit -v 300000; lockstep run job.yaml --dir run")
        self.assertEqual(exit_code, 1, output)
        self.assertRegex(output, "not enough memory to load the numeric engine|this machine cannot "
                                 "start another thread for lockstep-runtime|no memory left "
                                 "for")
        self.assertNotIn("SIGABRT", output)
        self.assertNotIn("apt-get", output)

    def test_file_that_may_not_grow_is_told_and_leaves_no_secret(self):
        exit_code, output = self.shell("ulimit -f 0; lockstep run job.yaml --dir run")
        self.assertEqual(exit_code, 1, output)
        self.assertIn("File too large", output)
        self.assertFalse((self.scratch / "run/job.key").exists())

    @unittest.skipUnless(can_mount_tmpfs(), "a small disk cannot be mounted: needs root")
    def test_disk_that_is_full_at_the_start_leaves_no_secret(self):
        disk = self.scratch / "disk"
        with small_disk(disk, "size=64k"):
            for bytes_left in (4096, 8192):  # enough for the lock; for the key as well
                (disk / "filler").write_bytes(bytes((64 << 10) - bytes_left))
                exit_code, output = self.end_of(
                    self.lockstep("run", "job.yaml", "--dir", "disk/run"))
                self.assertEqual(exit_code, 1, output)
                self.assertIn("No space left on device", output)
                left = [file.name for file in (disk / "run").rglob("*") if file.is_file()]
                self.assertEqual([name for name in left if name != "lock"], [])
                shutil.rmtree(disk / "run")

    def test_pod_that_can_never_be_made_ends_the_run_with_the_reason(self):
        (self.scratch / "run").mkdir()
        (self.scratch / "run/pods").write_text("")
        exit_code, output = self.end_of(self.lockstep("run", "job.yaml", "--dir", "run"))
        self.assertEqual(exit_code, 1, output)
        self.assertIn("pod command-worker-0 cannot be created: create folder ", output)
        self.assertIn("Not a directory", output)
        self.assertNotIn("actions for the job failed", output)

    @unittest.skipUnless(can_mount_tmpfs(), "a small disk cannot be mounted: needs root")
    def test_pods_wait_for_room_for_a_while(self):
        """On a disk with too few inodes, until its user has made room."""
        disk = self.scratch / "disk"
        with small_disk(disk, "nr_inodes=8"):
            run = self.lockstep("run", "job.yaml", "--dir", "disk/run")
            log = disk / "run/lockstep.log"
            self.wait_for(lambda: log.exists() and "pod not created" in log.read_text())
            subprocess.run(["mount", "-o", "remount,nr_inodes=100", disk], check=True)
            exit_code, output = self.end_of(run)
        self.assertEqual(exit_code, 0, output)
        self.assertEqual(output.count("cannot be created"), 1, output)
        self.assertIn("No space left on device; lockstep tries again for 30 s", output)

    def test_bytes_that_are_no_text_are_refused_with_the_line(self):
        self.manifest.write_bytes(self.manifest.read_bytes().replace(b"command}", b"caf\xe9}"))
        exit_code, output = self.end_of(self.lockstep("validate", "job.yaml"))
        self.assertEqual(exit_code, 2, output)
        self.assertIn("UTF-8", output)

    def test_names_that_are_no_text_or_too_long_are_answered(self):
        odd = os.fsencode(self.scratch) + b"/caf\xe9"
        exit_code, output = self.end_of(self.lockstep(
            "run", "job.yaml", "--dir", odd, "--quiet", errors="replace"))
        self.assertEqual(exit_code, 0, output)
        exit_code, output = self.end_of(self.lockstep("run", "job.yaml", "--dir", "x" * 300))
        self.assertEqual(exit_code, 1, output)
        self.assertIn("File name too long", output)


if __name__ == "__main__":
    unittest.main()
