"""Programs that meet by Horovod's rendezvous, which the runtime of rank 0's pod serves."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import sys
import unittest

from harness import BIN, LocalTest, command_manifest

PROGRAM = pathlib.Path(__file__).with_name("horovod_rank.py")

# More than a rank tries to reach the rendezvous, and with IMPATIENT more than it waits for others.
LATE_SECONDS = 4
IMPATIENT = 'image: local\n          env: [{name: HOROVOD_GLOO_TIMEOUT_SECONDS, value: "2"}]'

# Listens where the runtime wants to, in its place, until it is killed.
LISTEN = """\
import os, socket, time
server = socket.create_server((os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"],
                               int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])))
print("listens", flush=True)
time.sleep(3600)
"""


def manifest(*arguments, workers, processes=1, **changes):
    return command_manifest(
        [sys.executable, "-B", str(PROGRAM), *arguments], name="hvd", workers=workers, **changes
    ).replace("strategy: None", "strategy: Horovod").replace(
        f"replicas: {workers}", f"replicas: {workers}\n    processes: {processes}")


def ask(address, text):
    """The status of the answer to the bytes of one request."""
    with socket.create_connection(address, timeout=20) as connection:
        with contextlib.suppress(ConnectionError):  # who has refused does not read on
            connection.sendall(text)
        return int(connection.recv(4096).split(b" ", 2)[1])


def put(address, path, value=b""):
    return ask(address, b"PUT %s HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" %
               (path.encode(), len(value), value))


class HorovodTest(LocalTest):
    def log(self, run, pod, attempt=0):
        return run.pod_log(f"hvd-worker-{pod}" + (f"-a{attempt}" if attempt else ""))

    def meetings(self, run, pods, attempt=0):
        """Whom each rank met, by scope: [(rank, scope, others)]."""
        found = []
        for pod in range(pods):
            found += re.findall(rf"\[rank (\d+)\] attempt {attempt} in (\S+): met \[(.*)\]",
                                self.log(run, pod, attempt))
        return [(int(rank), scope, [int(other) for other in others.split(", ") if other])
                for rank, scope, others in found]

    def assert_met(self, run, groups, attempt=0):
        """Each rank has met just the others of its group, for each kind of scope, in the first
        meeting and in that of the process set."""
        pods = len(groups["local"])
        met = self.meetings(run, pods, attempt)
        for kind, members in groups.items():
            expected = sorted((rank, [other for other in group if other != rank])
                              for group in members for rank in group for _ in range(2))
            self.assertEqual(
                sorted((rank, others) for rank, scope, others in met if scope.startswith(kind)),
                expected, run.output)

    def lingering(self, ranks):
        """Waits until all ranks are held up; returns their processes."""
        files = [self.scratch / f"lingers-{rank}" for rank in range(ranks)]
        self.wait_for(lambda: all(file.exists() and file.read_text() for file in files))
        return [int(file.read_text()) for file in files]


class Meeting(HorovodTest):
    def run_ranks(self, workers, processes=1):
        run = self.run_job(manifest(workers=workers, processes=processes))
        self.assertEqual(run.exit_code, 0, run.output)
        return run

    def test_two_ranks(self):
        run = self.run_ranks(2)
        self.assert_met(run, {"global": [[0, 1]], "local": [[0], [1]], "cross": [[0, 1]]})

    def test_three_ranks(self):
        run = self.run_ranks(3)
        self.assert_met(
            run, {"global": [[0, 1, 2]], "local": [[0], [1], [2]], "cross": [[0, 1, 2]]})

    def test_two_pods_of_two_ranks(self):
        run = self.run_ranks(2, processes=2)
        self.assert_met(run, {"global": [[0, 1, 2, 3]], "local": [[0, 1], [2, 3]],
                              "cross": [[0, 2], [1, 3]]})

    def test_a_job_of_one(self):
        run = self.run_ranks(1)
        self.assert_met(run, {"global": [[0]], "local": [[0]], "cross": [[0]]})


class Start(HorovodTest):
    def runtime_after(self, condition, action):
        """A runtime in front of which a shell does something in some pods."""
        runtime = self.scratch / "runtime"
        runtime.write_text(
            f'#!/bin/sh\nif [ {condition} ]; then\n{action}\nfi\n'
            f'exec {BIN}/lockstep-runtime "$@"\n')
        runtime.chmod(0o755)
        return runtime

    def run_with_late(self, index):
        runtime = self.runtime_after(f'"$LOCKSTEP_INDEX" = {index}', f"sleep {LATE_SECONDS}")
        run = self.run_job(manifest(workers=3).replace("image: local", IMPATIENT),
                           "--runtime", str(runtime))
        self.assertEqual(run.exit_code, 0, run.output)
        self.assert_met(
            run, {"global": [[0, 1, 2]], "local": [[0], [1], [2]], "cross": [[0, 1, 2]]})

    def test_ranks_wait_for_the_pod_of_the_rendezvous(self):
        self.run_with_late(0)

    def test_ranks_wait_for_pods_of_other_ranks(self):
        self.run_with_late(2)

    def test_job_that_waits_for_a_pod_can_be_stopped(self):
        runtime = self.runtime_after('"$LOCKSTEP_INDEX" = 1', "touch waits; exec sleep 3600")
        started = self.start(manifest(workers=2), "--runtime", str(runtime))
        self.wait_for((self.scratch / "waits").exists)
        self.wait_for(lambda: "is served here" in self.pod_log(started[1], "hvd-worker-0"))
        run = self.stop(started)
        self.assertNotEqual(run.exit_code, 0, run.output)
        self.assertIn("asked to end", self.log(run, 0), "and not killed after its grace period")

    def test_port_that_is_taken_is_another_attempt(self):
        listen = self.scratch / "listen.py"
        listen.write_text(LISTEN)
        runtime = self.runtime_after(
            '"$LOCKSTEP_INDEX-$LOCKSTEP_ATTEMPT" = 0-0',
            f"mkfifo said; {sys.executable} {listen} > said &\nread -r word < said")
        run = self.run_job(manifest(workers=2, backoff_limit=3), "--runtime", str(runtime))
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertRegex(self.log(run, 0), "serve Horovod's rendezvous: .* the port is taken")
        self.assertEqual(len(self.meetings(run, 2, attempt=1)), 12)

    def test_port_is_left_to_programs_of_other_jobs(self):
        program = LISTEN.replace("time.sleep(3600)", "server.close()")
        run = self.run_job(command_manifest([sys.executable, "-c", program], workers=1))
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertIn("listens", run.pod_log("command-worker-0"))


class Loss(HorovodTest):
    def lose(self, victim, how):
        started = self.start(manifest(how, workers=3, backoff_limit=3, restart_policy="OnFailure"))
        before = self.lingering(3)
        os.kill(before[victim], signal.SIGKILL)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)
        self.assert_met(
            run, {"global": [[0, 1, 2]], "local": [[0], [1], [2]], "cross": [[0, 1, 2]]},
            attempt=1)
        return run

    def test_gang_meets_anew_when_a_rank_was_killed(self):
        run = self.lose(1, "linger")
        self.assertEqual(len(self.meetings(run, 3)), 18, "the first attempt had met, too")

    def test_gang_meets_anew_when_the_rank_beside_the_rendezvous_was_killed(self):
        self.lose(0, "linger")

    def test_what_a_half_met_gang_has_left_is_not_read(self):
        run = self.lose(2, "linger-in-meeting")
        self.assertEqual(self.meetings(run, 3), [])


class BadUse(HorovodTest):
    def rendezvous_of(self, pid):
        variables = dict(line.split("=", 1) for line in pathlib.Path(
            f"/proc/{pid}/environ").read_text().split("\0") if line)
        return (variables["HOROVOD_GLOO_RENDEZVOUS_ADDR"],
                int(variables["HOROVOD_GLOO_RENDEZVOUS_PORT"]))

    def test_strangers_are_refused_with_a_word_and_harm_nobody(self):
        started = self.start(
            manifest("linger", workers=2, backoff_limit=3, restart_policy="OnFailure"))
        address = self.rendezvous_of(self.lingering(2)[0])
        self.assertEqual(ask(address, b"nonsense\r\n\r\n"), 400)
        self.assertEqual(ask(address, b"GET /status HTTP/1.1\r\n\r\n"), 400)
        self.assertEqual(ask(address, b"POST /global/0 HTTP/1.1\r\nContent-Length: 0\r\n\r\n"), 405)
        self.assertEqual(put(address, "/global/0", bytes(6000)), 413)
        self.assertEqual(put(address, "/global/0", bytes(1000000)), 413)
        statuses = [put(address, f"/stranger/{number}") for number in range(2000)]
        self.assertEqual(statuses.index(507), sorted(statuses).index(507), "full once and for all")
        idle = [socket.create_connection(address) for _ in range(100)]
        self.addCleanup(lambda: [connection.close() for connection in idle])
        self.assertEqual(ask(address, b"GET /global/9 HTTP/1.1\r\n\r\n"), 404)
        os.kill(self.lingering(2)[1], signal.SIGKILL)
        run = self.finish(started)
        self.assertEqual(run.exit_code, 0, run.output)
        log = self.log(run, 0)
        for status in (400, 405, 413, 507):
            self.assertRegex(log, rf"refused a request from Horovod status={status} ")
        self.assertEqual(log.count("refused a request from Horovod"), 16)


if __name__ == "__main__":
    unittest.main(verbosity=2)
