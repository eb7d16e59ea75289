"""A command that loses a program starts anew within its pods: processes restart, pods stay."""

import json
import os
import signal
import unittest

from harness import LocalTest, command_manifest

RELAUNCH = "{relaunch: true}"

# Ranks meet at the port that TF_CONFIG gives to rank 0, as TensorFlow's do, and wait for one
# another: on the first attempt for ever, on a later one until all are there. Who loses a peer ends
# with a code of its own.
PROGRAM = """\
import json, os, socket, sys, time
rank, attempt = int(os.environ["RANK"]), int(os.environ["LOCKSTEP_ATTEMPT"])
host, port = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"][0].rsplit(":", 1)
if rank == 0:
    server = socket.create_server((host, int(port)))
    peer = server.accept()[0]
else:
    while True:
        try:
            peer = socket.create_connection((host, int(port)))
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
peer.sendall(b"%d" % attempt)
if peer.recv(1) != b"%d" % attempt:
    sys.exit("a peer of another attempt")
names = ("LOCKSTEP_POD", "LOCKSTEP_ATTEMPT", "LOCKSTEP_EPOCH", "TORCHELASTIC_RESTART_COUNT")
print("met", os.getpid(), os.getppid(), *(os.environ[name] for name in names), flush=True)
if attempt == 0:
    peer.recv(1)
    sys.exit("lost the peer")
time.sleep(3)  # long enough to be asked
"""


class Relaunch(LocalTest):
    def meetings(self, directory, rank):
        """What the rank said at each meeting: program, runtime, pod, attempt, epoch, restarts."""
        return self.told(directory, f"command-worker-{rank}", "met")

    def lose(self, rank, of=0, **changes):
        """The rank's program is killed, or with `of` 1 its runtime, once both have met."""
        manifest = command_manifest(["python3", "-c", PROGRAM], **{
            "backoff_limit": 1, "recovery": RELAUNCH, **changes})
        started = self.start(manifest)
        _, directory, _ = started
        self.wait_until_asked(directory, ("command-worker-0", "command-worker-1"), "met")
        os.kill(int(self.meetings(directory, rank)[0][of]), signal.SIGKILL)
        return self.finish(started)

    def test_processes_restart_and_pods_stay(self):
        for lost in range(2):
            run = self.lose(lost)
            self.assertEqual(run.exit_code, 0, run.output)
            for rank in range(2):
                first, second = self.meetings(run.directory, rank)
                self.assertNotEqual(first[0], second[0], "a program runs on")
                self.assertEqual(first[1:3], second[1:3], "the runtime, the pod")
                self.assertEqual(first[3:], ["0", "0", "0"])
                self.assertEqual(second[3:], ["1", "1", "1"])
            pods = sorted(pod["name"] for pod in run.summary["pods"])
            self.assertEqual(pods, ["command-worker-0", "command-worker-1"])
            self.assertEqual(run.summary["restarts"], [{"cause": "killed", "count": 1}])
            self.assertIn("the programs of all ranks restart in their pods", run.output)
            recovery, = run.summary["recoveries"]
            # Whoever was killed, in whatever order the ends of both were seen.
            self.assertEqual([recovery[key] for key in ("relaunch", "culprit", "cause", "oneOf")],
                             [1, f"worker-{lost}", "killed", []])
            self.assertIn("in the same pods", run.output)

    def test_budget_that_is_used_up_ends_the_job(self):
        run = self.lose(1, backoff_limit=0)
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn("runPolicy.backoffLimit allows 0 incidents, and 0 happened before",
                      run.output)

    def test_pod_that_dies_takes_the_way_of_new_pods(self):
        run = self.lose(1, of=1)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertIn("command-worker-1-a", json.dumps(run.summary["pods"]))
        self.assertNotIn("restart in their pods", run.output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
