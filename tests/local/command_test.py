"""Jobs that run a program of the user's: what it sees, and how its end is told."""

import errno
import json
import os
import signal
import socket
import subprocess
import time
import unittest
import unittest.mock

from harness import BIN, REPOSITORY, LocalTest, command_manifest, training_manifest


class Environment(LocalTest):
    def test_each_worker_sees_the_contract(self):
        run = self.run_job(command_manifest(["sh", "-c", "env"], name="env"))
        self.assertEqual(run.exit_code, 0, run.output)
        for index in range(2):
            log = run.pod_log(f"env-worker-{index}")
            lines = dict(line.split("] ", 1)[-1].split("=", 1)
                         for line in log.splitlines() if "=" in line)
            self.assertEqual(lines["RANK"], str(index))
            self.assertEqual(lines["WORLD_SIZE"], "2")
            self.assertEqual(lines["LOCAL_RANK"], "0")
            self.assertEqual(lines["LOCAL_WORLD_SIZE"], "1")
            self.assertEqual(lines["HOROVOD_RANK"], str(index))
            self.assertEqual(lines["HOROVOD_SIZE"], "2")
            self.assertIn("MASTER_ADDR", lines)
            self.assertIn("MASTER_PORT", lines)
            config = json.loads(lines["TF_CONFIG"])
            self.assertEqual(config["task"], {"type": "worker", "index": index})
            self.assertEqual(len(config["cluster"]["worker"]), 2)


# Every process listens where TF_CONFIG says it does, and rank 0 at MASTER_PORT, on all addresses of
# the machine, as TensorFlow's server and torch's store do; until all have started.
LISTEN = """\
import json, os, pathlib, socket, time
config = json.loads(os.environ["TF_CONFIG"])
own = config["cluster"][config["task"]["type"]][config["task"]["index"]]
ports = [own.rsplit(":", 1)[1]] + [os.environ["MASTER_PORT"]] * (os.environ["RANK"] == "0")
servers = [socket.create_server(("0.0.0.0", int(port))) for port in ports]
pathlib.Path("listens-" + os.environ["RANK"]).touch()
while len(list(pathlib.Path().glob("listens-*"))) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.01)
"""


class Machine(LocalTest):
    def listen_as_others_do(self):
        """Servers at the ports of a cluster's pods; where somebody listens already, that is one."""
        for port in (2221, 2222, 2223, 2224, 29500):
            server = socket.socket()
            self.addCleanup(server.close)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                server.bind(("0.0.0.0", port))
                server.listen()
            except OSError as error:
                self.assertEqual(error.errno, errno.EADDRINUSE)

    def test_servers_of_others_stop_no_run(self):
        self.listen_as_others_do()
        run = self.run_job(training_manifest(workers=2, steps=20))
        self.assert_trained(run)
        self.assertRegex(
            run.output, r"pods listen on 127\.[0-9.]+\.1 to 127\.[0-9.]+\.2, ports [0-9]+ to")

    def test_two_pods_of_two_processes_listen_on_all_addresses(self):
        manifest = command_manifest(["python3", "-c", LISTEN]).replace(
            "replicas: 2", "replicas: 2\n    processes: 2")
        self.assertEqual(self.run_job(manifest).exit_code, 0)

    def test_programs_start_beside_their_manifest(self):
        (self.scratch / "train.py").write_text("import os; print('at home in', os.getcwd())")
        run = self.run_job(command_manifest(["python3", "train.py"], workers=1))
        self.assertIn(f"at home in {self.scratch}", run.pod_log("command-worker-0"), run.output)

    def test_references_are_replaced_as_in_a_cluster(self):
        run = self.run_job(command_manifest(["echo", "rank $(RANK), $$(RANK), $(NONE)"], workers=1))
        self.assertIn("rank 0, $(RANK), $(NONE)", run.pod_log("command-worker-0"), run.output)

    def test_checkpoints_of_a_program_are_found_again_after_a_restart(self):
        script = ('cd "$LOCKSTEP_CHECKPOINT_DIR" || exit 9; '
                  "test -e saved && exit 0; touch saved; exit 137")
        run = self.run_job(command_manifest(["sh", "-c", script], workers=1, backoff_limit=1))
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertTrue((run.directory / "checkpoints" / "saved").exists())


class Ends(LocalTest):
    def exit_of(self, shell, **changes):
        return self.run_job(command_manifest(["sh", "-c", shell], workers=1, **changes))

    def test_zero_is_success(self):
        self.assertEqual(self.exit_of("exit 0").exit_code, 0)

    def test_one_is_the_programs_own_verdict_and_not_retried(self):
        run = self.exit_of("exit 1", backoff_limit=3)
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("exit code 1", run.output)
        self.assertEqual(run.summary["restarts"], [])

    def test_zero_after_a_signal_to_the_pod_is_an_end_in_the_middle_and_not_counted(self):
        run = self.exit_of(
            'cd "$LOCKSTEP_CHECKPOINT_DIR" || exit 9; test -e saved && exit 0; touch saved; '
            "trap 'exit 0' TERM; kill -TERM $PPID; while :; do sleep 0.01; done", backoff_limit=0)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual([one["cause"] for one in run.summary["restarts"]], ["preempted"])

    def test_76_of_a_program_without_a_session_is_its_own_verdict_and_not_retried(self):
        run = self.exit_of("exit 76", backoff_limit=3)
        self.assertEqual((run.exit_code, run.summary["restarts"]), (1, []), run.output)
        self.assertIn("the program ended with exit code 76, which means that a newer process has "
                      "replaced it. There is no newer process, so this pod ends with exit code 1",
                      run.output)

    def test_137_and_143_are_retried_within_the_budget(self):
        for code in (137, 143):
            run = self.exit_of(f"exit {code}", backoff_limit=1)
            self.assertEqual(run.exit_code, 1, run.output)
            self.assertEqual(sum(entry["count"] for entry in run.summary["restarts"]), 1)

    def test_a_killed_pod_leaves_nothing_of_torchrun_among_temporary_files(self):
        temporary = self.scratch / "temporary"
        temporary.mkdir()
        for script in ('echo {} >"$TORCHELASTIC_ERROR_FILE"; kill -9 $PPID; sleep 1000',
                       'while :; do echo {} >"$TORCHELASTIC_ERROR_FILE"; done & exit 0'):
            with unittest.mock.patch.dict(os.environ, TMPDIR=str(temporary)):
                run = self.run_job(command_manifest(["sh", "-c", script], workers=1))
            self.assertEqual(run.exit_code, int("kill" in script), run.output)
            self.assertEqual(list(temporary.iterdir()), [], script)

    def test_missing_program_names_itself(self):
        run = self.run_job(command_manifest(["no-such-program-here"], workers=1))
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("no-such-program-here", run.output)

    def test_program_that_ignores_sigterm_is_killed_after_the_grace_period(self):
        manifest = command_manifest(
            ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"],
            workers=1, grace=2)
        started = self.start(manifest, "--chaos", "kill=worker-0@time=600s")
        process, directory, _ = started
        self.wait_for(lambda: any("deaf" in log.read_text()
                                  for log in directory.glob("pods/*/pod.log")))
        process.send_signal(signal.SIGINT)
        run = self.finish(started)  # the program would never end
        self.assertEqual(run.exit_code, 130, run.output)


class Hangs(LocalTest):
    SCRIPT = ("test -e tried-$RANK && exit 0; touch tried-$RANK; "
              "test $RANK = 1 && kill -STOP $$$$; while :; do sleep 0.1; done")

    def test_a_stopped_program_is_found_and_the_gang_starts_anew(self):
        run = self.run_job(command_manifest(["sh", "-c", self.SCRIPT], backoff_limit=1,
                                            recovery="{hungAfterSeconds: 1}"))
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual([(each["cause"], each["count"]) for each in run.summary["restarts"]],
                         [("hang", 1)], run.output)
        self.assertIn("it is stopped", run.output)
        self.assertIn("command-worker-1", run.output)


class Refusals(LocalTest):
    def test_more_gpus_than_the_machine_has(self):
        manifest = command_manifest(["true"]).replace(
            "replicas: 2", "replicas: 2\n    gpus: 64")
        run = self.run_job(manifest)
        self.assertEqual(run.exit_code, 3, run.output)
        self.assertIn("128 GPUs", run.output)
        self.assertFalse(list(run.directory.glob("pods/*")))

    def test_bad_manifest_starts_nothing(self):
        run = self.run_job(training_manifest(workers=-1))
        self.assertEqual(run.exit_code, 2, run.output)
        self.assertIn("spec.roles[0].replicas", run.output)
        self.assertFalse(run.directory.exists())

    def test_every_bad_manifest_is_told_and_starts_nothing(self):
        folders = ["crds/examples/invalid", "operator/api/testdata/bad"]
        manifests = sorted(path for folder in folders
                           for path in (REPOSITORY / folder).glob("*.yaml"))
        self.assertGreaterEqual(len(manifests), 200)
        for manifest in manifests:
            with self.subTest(manifest=manifest.name):
                ran = subprocess.run(
                    [BIN / "lockstep", "run", manifest, "--dir", self.scratch / "run"],
                    capture_output=True, text=True)
                self.assertEqual(ran.returncode, 2, ran.stdout + ran.stderr)
                self.assertIn(manifest.name, ran.stdout + ran.stderr)
                self.assertFalse((self.scratch / "run").exists())

    def test_unreadable_data_fails_with_the_file_named(self):
        run = self.run_job(training_manifest(mnist="/nonexistent"))
        self.assertEqual(run.exit_code, 2, run.output)
        for file in ("images: /nonexistent/t10k-images-", "labels: /nonexistent/t10k-labels-"):
            self.assertIn("spec.training.dataset." + file, run.output)
        self.assertIsNone(run.summary)


class Stop(LocalTest):
    def test_interrupt_saves_a_checkpoint_and_a_second_run_resumes(self):
        manifest = training_manifest(steps=100000).replace(
            "directory: checkpoints", f"directory: {self.scratch}/kept")
        started = self.start(manifest)
        process, _, _ = started
        deadline = time.monotonic() + 60
        while not list(self.scratch.glob("kept/step-*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 130, run.output)
        newest = max(int(path.name.split("-")[1]) for path in self.scratch.glob("kept/step-*"))
        resumed = self.run_job(
            manifest.replace("steps: 100000", f"steps: {newest + 10}"))
        self.assert_trained(resumed)
        self.assertIn(f"step={newest}", resumed.pod_log("quick-worker-0"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
