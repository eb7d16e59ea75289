"""What handlers at exit know, in processes of their own."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from lockstep import exits

# Ends as its words say, and tells what its handler at exit knows of that.
SCRIPT = """\
import os, signal, sys, threading
from lockstep import errors, exits
exits.call_at_exit(lambda: print("handler:", exits.code()))
{0}
"""


class Exit(unittest.TestCase):
    def end(self, words):
        """The code of a process, and what it wrote."""
        root = pathlib.Path(exits.__file__).parent.parent
        ended = subprocess.run([sys.executable, "-c", SCRIPT.format(words)], cwd=root,
                               capture_output=True, text=True, timeout=60)
        return ended.returncode, ended.stdout

    def test_a_handler_at_exit_knows_the_code(self):
        for words, code in (
                ("pass", 0), ("sys.exit()", 0), ("sys.exit(75)", 75), ("sys.exit('text')", 1),
                ("errors.run(lambda: None)", 0),
                ("def work(): raise SystemExit(5)\nerrors.run(work)", 5),
                ("def work(): raise errors.Superseded('x')\nerrors.run(work)", 76),
                ("1 / 0", 1),
                ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
                 "os.kill(os.getpid(), signal.SIGTERM)", 143),
                ("one = threading.Thread(target=lambda: sys.exit(3))\none.start(); one.join()", 0),
                ("try: sys.exit(3)\nexcept SystemExit: exits.note(0)", 0)):
            with self.subTest(words):
                self.assertEqual(self.end(words), (code, f"handler: {code}\n"))

    def test_what_a_program_caught_of_the_loop_changes_an_end_with_0_alone(self):
        caught = "errors.note_end(errors.Diverged('b is NaN'))\nerrors.watch_end()\n"
        for words, code in (("pass", 79), ("sys.exit(0)", 79), ("sys.exit(5)", 5), ("1 / 0", 1),
                            ("errors.run(lambda: None)", 79),
                            ("if os.fork() == 0: sys.exit(0)\nos.wait()", 79)):
            with self.subTest(words):
                self.assertEqual(self.end(caught + words)[0], code)
        self.assertEqual(self.end("errors.watch_end()"), (0, "handler: 0\n"))

    def test_an_end_that_nobody_caught_has_its_own_code(self):
        for error, code in (("Stopped", 42), ("MeetAgain", 75), ("Finished", 0), ("Mismatch", 1)):
            with self.subTest(error):
                self.assertEqual(
                    self.end(f"errors.watch_end()\nraise errors.{error}('asked to stop')")[0], code)

    def test_an_end_by_a_handler_keeps_what_was_written(self):
        with tempfile.NamedTemporaryFile("r") as file:
            self.end(f"log = open({file.name!r}, 'w'); log.write('step 1')\n"
                     "errors.watch_end()\nraise errors.Stopped('asked to stop')")
            self.assertEqual(file.read(), "step 1")

    def test_an_end_by_a_handler_is_after_those_that_were_registered_before(self):
        for words in ("raise errors.Stopped('asked to stop')",
                      "errors.note_end(errors.Stopped('asked to stop'))"):
            self.assertEqual(
                self.end(f"import atexit; atexit.register(print, 'earlier')\nerrors.watch_end()\n"
                         f"atexit.register(print, 'later')\n{words}"),
                (42, f"later\nearlier\nhandler: {int('raise' in words)}\n"))

    def test_of_two_ends_by_handlers_the_first_stays(self):
        self.assertEqual(self.end("exits.call_at_exit(lambda: exits.end_at_last(1, 'first'))\n"
                                  "exits.call_at_exit(lambda: exits.end_at_last(2, 'second'))"),
                         (2, "handler: 0\n"))

    def test_a_fork_does_not_call_it(self):
        fork = "if os.fork() == 0: sys.exit(0)\nos.wait()"
        self.assertEqual(self.end(fork), (0, "handler: 0\n"))

    def test_it_can_be_taken_back(self):
        self.assertEqual(self.end("exits.call_at_exit(lambda: print('other'))()"),
                         (0, "handler: 0\n"))


if __name__ == "__main__":
    unittest.main()
