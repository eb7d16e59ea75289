"""Processes that a test starts: each dies with the test, is ended by its pid, and has a log."""

import os
import pathlib
import random
import signal
import socket
import subprocess
import time

# How often a wait looks: every 20 ms at first, and ten times a second in the end. A look costs what
# others could use, and whoever has waited for seconds does not mind a tenth.
POLL_SECONDS = 0.02
POLL_SECONDS_MAX = 0.1
POLL_SHARE = 0.02  # of what has been waited so far
# Times what a quiet machine needs at most: on a busy one a test that is right passes, too, and only
# one that fails takes longer.
PATIENCE = 4
LOG_TAIL_LINES = 20
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class WaitedInVain(AssertionError):
    """A condition did not come true in time."""


def wait_for(condition, seconds, what):
    """Polls until `condition()` is true and returns its value. It should take
    `seconds` at most, and is waited for PATIENCE times as long. `what` says what was waited for: a
    text, or a function that is called when it did not come."""
    seconds *= PATIENCE
    began = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - began
        if waited > seconds:
            name = what() if callable(what) else what
            raise WaitedInVain(f"waited {seconds} s in vain for {name}")
        time.sleep(min(max(POLL_SECONDS, POLL_SHARE * waited), POLL_SECONDS_MAX))


class Program:
    """One running process. Start it from the main thread: it is killed when that thread ends,
    however it ends, so that not even a killed test leaves one behind."""

    def __init__(self, name, arguments, log, environment=None):
        self.name = name
        self.log = pathlib.Path(log)
        # The file is reopened by nobody: what one start wrote stays before what the next writes.
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    @property
    def pid(self):
        return self._process.pid

    def is_running(self):
        return self._process.poll() is None

    def exit_code(self, seconds=30):
        """Waits for the end. Negative: killed by that signal."""
        return self._process.wait(timeout=seconds)

    def signal(self, number):
        if self.is_running():
            self._process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self._process.wait()

    def tail(self):
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def wait_ready(self, is_ready, seconds=60):
        """Waits until `is_ready()`; a failure shows the end of the log."""

        def ready_or_dead():
            if not self.is_running():
                raise WaitedInVain(f"{self.name} ended with {self.exit_code()}")
            return is_ready()

        try:
            wait_for(ready_or_dead, seconds, f"{self.name} to be ready")
        except WaitedInVain as failure:
            raise WaitedInVain(f"{failure}\n{self.tail()}") from None

    def resident_mib(self):
        return resident_mib(self.pid)

    def peak_resident_mib(self):
        return _status_kib(self.pid, "VmHWM") / 1024

    def cpu_seconds(self):
        """User and system time used so far, all threads."""
        # The second field is the command in parentheses and may hold spaces.
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS


def resident_mib(pid):
    return _status_kib(pid, "VmRSS") / 1024


def _status_kib(pid, key):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise ProcessLookupError(pid)


class LoopbackAddress:
    """A loopback address of our own: all its ports are free, so programs get the usual ones. It is
    reserved among test runs by a socket bound to it for as long as this object lives."""

    _RESERVATION_PORT = 61999  # nobody's
    _TRIES = 64

    def __init__(self):
        chance = random.SystemRandom()
        for _ in range(self._TRIES):
            parts = [chance.randrange(16, 255), chance.randrange(256), chance.randrange(1, 255)]
            self.address = "127." + ".".join(map(str, parts))
            self._socket = socket.socket()
            try:
                self._socket.bind((self.address, self._RESERVATION_PORT))
                return
            except OSError:
                self._socket.close()
        raise OSError("no loopback address is free")

    def release(self):
        self._socket.close()
