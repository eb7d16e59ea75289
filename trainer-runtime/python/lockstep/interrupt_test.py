"""Ctrl-C while a call waits: who hears of it, and in whose pipe."""

import os
import signal
import threading
import time
import unittest

from lockstep.interrupt import InterruptWatcher

PATIENCE = 30.0


class Interrupts(unittest.TestCase):
    def setUp(self):
        self.addCleanup(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT))
        self.addCleanup(signal.set_wakeup_fd, signal.set_wakeup_fd(-1))
        self.ended = threading.Event()

    def pipe(self):
        """Both ends; the pipe of the process's signals, too."""
        ends = os.pipe()
        os.set_blocking(ends[1], False)
        signal.set_wakeup_fd(ends[1])
        return ends

    def watcher(self):
        """One whose call is in progress until it is ended."""

        def end_call():
            watcher.call = 0
            self.ended.set()

        watcher = InterruptWatcher(end_call)
        watcher.call = watcher.number_call()
        return watcher

    def interrupt(self):
        """Raises SIGINT here, and swallows what Python's own handler does."""
        try:
            signal.raise_signal(signal.SIGINT)
            self.ended.wait(PATIENCE)
        except KeyboardInterrupt:
            pass

    def test_a_call_is_ended_and_who_had_the_pipe_hears_of_it(self):
        reading, writing = self.pipe()
        watcher = self.watcher()
        self.interrupt()
        self.assertTrue(self.ended.wait(PATIENCE))
        self.assertEqual(os.read(reading, 1), bytes([signal.SIGINT]))
        watcher.close()
        self.assertEqual(signal.set_wakeup_fd(-1), writing)
        os.close(reading)
        os.close(writing)

    def test_a_pipe_that_was_closed_meanwhile_harms_nobody(self):
        reading, writing = self.pipe()
        watcher = self.watcher()
        os.close(reading)
        os.close(writing)
        self.interrupt()
        self.assertTrue(self.ended.wait(PATIENCE))
        self.assertTrue(watcher._thread.is_alive())
        watcher.close()
        self.assertEqual(signal.set_wakeup_fd(-1), -1)

    def test_a_handler_of_the_programs_own_ends_no_call(self):
        heard = []
        signal.signal(signal.SIGINT, lambda *_: heard.append(1))
        reading, writing = self.pipe()
        watcher = self.watcher()
        signal.raise_signal(signal.SIGINT)
        os.read(reading, 1)  # the thread has seen it
        watcher.close()  # and is done with it
        self.assertEqual((heard, self.ended.is_set()), ([1], False))
        os.close(reading)
        os.close(writing)

    def test_a_fork_that_lives_on_keeps_nobody_from_closing(self):
        watcher = self.watcher()
        thread = watcher._thread
        child = os.fork()  # as a loader's workers: with a copy of the pipe
        if child == 0:
            time.sleep(PATIENCE)
            os._exit(0)
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(os.kill, child, signal.SIGKILL)
        begin = time.monotonic()
        watcher.close()
        self.assertLess(time.monotonic() - begin, PATIENCE / 2)
        self.assertFalse(thread.is_alive())


if __name__ == "__main__":
    unittest.main()
