"""TF_CONFIG of now, which the runtime serves to its pod's programs (LOCKSTEP_TF_CONFIG_URL)."""

import ipaddress
import json
import os
import signal
import socket
import unittest
import urllib.error
import urllib.parse
import urllib.request

from harness import LocalTest, command_manifest
from python_case import python_words

# Says where it asks, what it is told, and what its environment says; then waits for its end.
PROGRAM = """\
import json, os, sys, time
import lockstep.tensorflow
config = lockstep.tensorflow.tf_config()
variable = json.loads(os.environ.get("TF_CONFIG", "{}"))
assert json.loads(config.text()) == (variable or {
    "cluster": {}, "task": {"type": "worker", "index": 0}}), (config, variable)
assert config.attempt == int(os.environ["LOCKSTEP_ATTEMPT"]), config
assert config.epoch == int(os.environ["LOCKSTEP_EPOCH"]), config
print("told", os.getpid(), os.environ["LOCKSTEP_TF_CONFIG_URL"], config.task.type,
      config.task.index, config.attempt, flush=True)
until = sys.argv[1]
while not os.path.exists(until):
    time.sleep(0.01)
"""


def ask(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        return json.load(answer)


class ServedTfConfig(LocalTest):
    def setUp(self):
        super().setUp()
        self.program = self.scratch / "program.py"
        self.program.write_text(PROGRAM)
        self.until = self.scratch / "may-end"

    def manifest(self, workers, processes=1, **changes):
        return command_manifest(
            python_words(self.program, str(self.until)), workers=workers, **changes).replace(
                f"replicas: {workers}", f"replicas: {workers}\n    processes: {processes}")

    def told_by(self, directory, index):
        """Of each start of a program in the worker: process, URL, type, index, attempt."""
        return self.told(directory, f"command-worker-{index}", "told")

    def test_each_process_of_a_pod_asks_for_its_own_task(self):
        started = self.start(self.manifest(2, processes=2))
        _, directory, _ = started
        self.wait_for(lambda: all(len(self.told_by(directory, pod)) == 2 for pod in range(2)))
        tasks = []
        for pod in range(2):
            for _, url, kind, index, _ in self.told_by(directory, pod):
                place = urllib.parse.urlsplit(url)
                self.assertTrue(ipaddress.ip_address(place.hostname).is_loopback, url)
                self.assertEqual(ask(url)["task"], {"type": kind, "index": int(index)})
                tasks.append(int(index))
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    ask(url + "7")
                self.assertEqual(refused.exception.code, 404)
                # On another address of the machine nobody listens.
                with self.assertRaises(OSError):
                    socket.create_connection(("127.0.0.2", place.port), timeout=10).close()
        self.assertEqual(sorted(tasks), [0, 1, 2, 3])
        self.until.touch()
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)

    def test_process_that_is_alone_is_told_so(self):
        self.until.touch()
        run = self.run_job(self.manifest(1))
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(self.told_by(run.directory, 0)[0][2:], ["worker", "0", "0"])

    def test_document_changes_when_the_gang_starts_anew_in_its_pods(self):
        started = self.start(self.manifest(2, backoff_limit=1, recovery="{relaunch: true}"))
        _, directory, _ = started
        self.wait_until_asked(directory, ("command-worker-0", "command-worker-1"), "told")
        process, url = self.told_by(directory, 1)[0][:2]
        before = ask(url)
        self.assertEqual((before["attempt"], before["epoch"]), (0, 0))
        os.kill(int(process), signal.SIGKILL)
        self.wait_for(lambda: all(len(self.told_by(directory, pod)) == 2 for pod in range(2)))
        after = ask(url)
        self.assertEqual(after, {**before, "attempt": 1, "epoch": 1})
        self.assertEqual(self.told_by(directory, 1)[1][1], url, "the place stays")
        self.until.touch()
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(len(run.summary["pods"]), 2, run.output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
