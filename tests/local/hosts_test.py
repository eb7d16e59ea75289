"""The built-in trainer on two hosts: pods in network namespaces of their own, with a cable."""

import contextlib
import hashlib
import hmac
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

from harness import BIN, RUN_TIMEOUT_SECONDS, LocalTest, processes_below, training_manifest
from lanes import long

STEPS = 600
PARAMETERS = 784 * 32 + 32 + 32 * 10 + 10
ADDRESSES = ("10.77.0.1", "10.77.0.2")
JOB_KEY = "5" * 64

# Relative: the bound that the sums' other order must stay within.
LOSS_TOLERANCE = 1e-5


def missing_for_hosts():
    """Why this machine cannot have two hosts, or nothing."""
    if os.geteuid() != 0:
        return "not root"
    try:
        made = subprocess.run(
            ["unshare", "--net", "ip", "link", "add", "name", "near", "type", "veth",
             "peer", "name", "far"],
            capture_output=True, text=True, check=False)
    except FileNotFoundError as missing:
        return str(missing)
    return made.stderr if made.returncode != 0 else ""


class Hosts(LocalTest):
    """Host 0 has ranks 0 and 1, host 1 has ranks 2 and 3."""

    def setUp(self):
        if missing := missing_for_hosts():
            self.skipTest(f"no network namespaces with a cable between them: {missing}")
        super().setUp()
        self.hosts = [self.make_host() for _ in ADDRESSES]
        first, second = (str(host.pid) for host in self.hosts)
        subprocess.run(["ip", "link", "add", "name", "cable", "netns", first, "type", "veth",
                        "peer", "name", "cable", "netns", second], check=True)
        for number, address in enumerate(ADDRESSES):
            for words in (["addr", "add", f"{address}/24", "dev", "cable"],
                          ["link", "set", "cable", "up"], ["link", "set", "lo", "up"]):
                subprocess.run([*self.on(number), "ip", *words], check=True)

    def make_host(self):
        """A process that holds a network namespace and ends with this one's pipe."""
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(holder.communicate)
        holder.stdout.readline()  # it is in there
        return holder

    def on(self, host):
        return ["nsenter", "--net", f"--target={self.hosts[host].pid}"]

    def start_pods(self, name):
        """Starts both, with a folder of that name for what they write."""
        self.folder = self.scratch / name
        self.folder.mkdir()
        (self.folder / "key").write_text(JOB_KEY)
        manifest = self.folder / "job.yaml"
        text = training_manifest(workers=2, steps=STEPS, every_steps=50)
        text = text.replace("  - name: worker\n", "  - name: worker\n    processes: 2\n")
        # Several buckets, so that they cross the cable while backward goes on.
        manifest.write_text(text.replace(
            "    seed:", "    communication: {bytesPerPack: 16384}\n    seed:"))
        rendered = subprocess.run([BIN / "lockstep", "render", manifest, "--output", "json"],
                                  capture_output=True, text=True, check=True).stdout
        for number, address in enumerate(ADDRESSES):
            rendered = rendered.replace(f"quick-worker-{number}.quick.default.svc", address)
        return [self.start_pod(number, pod["env"])
                for number, pod in enumerate(json.loads(rendered)["pods"])]

    def start_pod(self, number, variables):
        environment = {
            **os.environ,
            **variables,
            "LOCKSTEP_TERMINATION_MESSAGE_FILE": str(self.folder / f"last-words-{number}"),
            "LOCKSTEP_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
            "LOCKSTEP_JOB_KEY_FILE": str(self.folder / "key"),
        }
        with open(self.log_file(number), "wb") as log:
            return subprocess.Popen([*self.on(number), BIN / "lockstep-runtime", "train"],
                                    env=environment, stdin=subprocess.DEVNULL,
                                    stdout=log, stderr=subprocess.STDOUT)

    def log_file(self, number):
        return self.folder / f"pod-{number}.log"

    def finish_pods(self, pods):
        for number, pod in enumerate(pods):
            code = pod.wait(timeout=RUN_TIMEOUT_SECONDS)
            self.assertEqual(code, 0, self.log_file(number).read_text())
        return json.loads((self.folder / "last-words-0").read_text())

    def status(self, number):
        """The status document, or None before there is one."""
        expires = int(time.time()) + 60
        signed = hmac.new(JOB_KEY.encode(), f"status\nquick-worker-{number}\n{expires}".encode(),
                          hashlib.sha256).hexdigest()
        ask = ("import urllib.request as r;"
               "ask = r.Request('http://127.0.0.1:2223/status',"
               f" headers={{'Authorization': 'Bearer {expires}.{signed}'}});"
               "print(r.urlopen(ask, timeout=5).read().decode())")
        asked = subprocess.run([*self.on(number), sys.executable, "-c", ask], capture_output=True,
                               text=True, check=False)
        return json.loads(asked.stdout) if asked.returncode == 0 else None

    def sent_bytes(self, number):
        counter = "/sys/class/net/cable/statistics/tx_bytes"
        # A mount of its own: what is mounted now shows the links of this process's namespace.
        read = f"mount -t sysfs sysfs /sys && cat {counter}"
        return int(subprocess.run([*self.on(number), "unshare", "--mount", "sh", "-c", read],
                                  capture_output=True, text=True, check=True).stdout)

    def trainers(self):
        """Process ids of the trainers by rank."""
        found = {}
        for pid, command in processes_below(self.folder).items():
            process = re.search(r" --process (\d)", command)
            if process is None:
                continue
            with contextlib.suppress(OSError):
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                pod = re.search(rb"LOCKSTEP_POD=quick-worker-(\d)", variables)
                found[2 * int(pod[1]) + int(process[1])] = pid
        return found

    def test_gradients_are_summed_within_hosts_and_cross_the_cable_once(self):
        pods = self.start_pods("pair")
        backends = []

        def tells_backends():
            nonlocal backends
            documents = [self.status(number) for number in range(2)]
            backends = [(document["backend"], document["backendDetail"])
                        for document in documents if document is not None and document["backend"]]
            return len(backends) == 2

        self.wait_for(tells_backends)
        detail = "shared memory within a host, TCP between hosts, gradients in shared memory"
        self.assertEqual(backends, [("hierarchical", detail)] * 2)
        words = self.finish_pods(pods)
        # Each host sends its sum once a step: half of it to the other's share, the other half as
        # the result. Every rank by itself would send twice that.
        for number in range(2):
            each_step = self.sent_bytes(number) / STEPS
            self.assertGreater(each_step, 4 * PARAMETERS)
            self.assertLess(each_step, 1.3 * 4 * PARAMETERS)
        alone = self.run_job(training_manifest(workers=1, steps=STEPS, every_steps=0))
        self.assertAlmostEqual(words["trainingLoss"], alone.summary["loss"],
                               delta=LOSS_TOLERANCE * alone.summary["loss"])

    @long
    def test_lost_process_has_a_successor_whichever_host_and_place(self):
        for rank in (0, 1, 2, 3):
            with self.subTest(rank=rank):
                self.lose(rank, signal.SIGKILL)

    def test_process_that_is_stopped_is_replaced_by_its_own_pod(self):
        """The other host sees nothing of it; its neighbours do, and the runtime in front of it."""
        self.lose(3, signal.SIGSTOP)

    def lose(self, rank, how):
        pods = self.start_pods(f"without-{rank}")
        self.wait_for(lambda: list((self.folder / "checkpoints").glob("step-*")))
        before = self.trainers()
        self.assertEqual(sorted(before), [0, 1, 2, 3])
        os.kill(before[rank], how)
        self.wait_for(lambda: self.trainers().get(rank, before[rank]) != before[rank])
        after = self.trainers()
        for other in {0, 1, 2, 3} - {rank}:
            self.assertEqual(after[other], before[other], f"rank {other}")
        self.finish_pods(pods)


if __name__ == "__main__":
    unittest.main()
