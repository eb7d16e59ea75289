"""A port of the run that another process takes between the end of a pod and its successor."""

import os
import re
import signal
import socket
import unittest

from harness import LocalTest, training_manifest

STEPS = 3000  # a fast machine takes a second for them: the loss comes far before the end


def is_stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


class Ports(LocalTest):
    def lose_port_of_worker_1(self, started):
        """Kills worker 1 of a training, and returns the socket that listens in its place."""
        process, directory, _ = started
        # Whatever it does until it goes on, it does after the port was taken.
        process.send_signal(signal.SIGSTOP)
        self.wait_for(lambda: is_stopped(process.pid))
        victim = self.pid_of(directory, "quick-worker-1")
        with open(f"/proc/{victim}/environ", "rb") as file:
            places = re.findall(rb"127\.\d+\.\d+\.2:\d+", file.read())
        host, port = places[0].decode().split(":")
        os.kill(victim, signal.SIGKILL)
        holder = socket.socket()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def is_taken():
            try:
                holder.bind((host, int(port)))
            except OSError:
                return False
            return True

        self.wait_for(is_taken)
        holder.listen()
        process.send_signal(signal.SIGCONT)
        return holder, f"{host}:{port}"

    def started(self):
        return self.start_until_trained(training_manifest(steps=STEPS, backoff_limit=1))

    def read_until(self, process, text):
        """The output up to the line that has `text`."""
        lines = []
        while text not in (lines[-1] if lines else ""):
            line = process.stdout.readline()
            self.assertNotEqual(line, "", f"no line with {text!r} in " + "".join(lines))
            lines.append(line)
        return "".join(lines)

    def test_holder_that_stays_is_named_and_the_gang_starts_anew_on_other_ports(self):
        started = self.started()
        holder, place = self.lose_port_of_worker_1(started)
        with holder:
            run = self.finish(started)
        self.assert_trained(run)
        self.assertRegex(run.output, rf"port of quick-worker-1-r1: {re.escape(place)} is in use by "
                                     rf"process {os.getpid()} \(python3[^)]*\); lockstep waits "
                                     "for the port")
        self.assertRegex(run.output, r"the gang now uses ports \d+ to \d+, cause port_taken; does "
                                     r"not count against runPolicy.backoffLimit")
        self.assertEqual(run.summary["restarts"], [{"cause": "killed", "count": 1},
                                                   {"cause": "port_taken", "count": 1}])

    def test_holder_that_goes_is_waited_for_and_only_the_lost_pod_is_replaced(self):
        started = self.started()
        holder, _ = self.lose_port_of_worker_1(started)
        with holder:
            before = self.read_until(started[0], "lockstep waits for the port")
        run = self.finish(started)
        run.output = before + run.output
        self.assert_trained(run, recoveries=1)
        self.assertEqual(run.summary["restarts"], [{"cause": "killed", "count": 1}])


if __name__ == "__main__":
    unittest.main()
