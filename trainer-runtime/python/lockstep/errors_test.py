"""How `run` ends a process, also where the program caught an error that has ended its work."""

import contextlib
import io
import pathlib
import subprocess
import sys
import unittest
import unittest.mock

from lockstep import errors
from lockstep.errors import Diverged, Finished, Mismatch, NotSaved, Stopped, note_end, run


class Run(unittest.TestCase):
    def setUp(self):
        nothing = unittest.mock.patch.object(errors, "_end", None)
        nothing.start()
        self.addCleanup(nothing.stop)

    def end(self, work):
        """The exit code, and what was said."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
            run(work)
        return end.exception.code, said.getvalue()

    def test_a_caught_error_of_the_loop_ends_the_process_with_its_code_and_name(self):
        for error, code in ((Mismatch("a differs"), 1), (Diverged("b is NaN"), 79),
                            (NotSaved("c"), 74), (Stopped("d"), 42)):
            for leave in (lambda: None, lambda: sys.exit(0), sys.exit):
                errors._end = None
                note_end(error)
                self.assertEqual(self.end(leave), (
                    code, f"lockstep: the program caught {type(error).__name__} and ended as if "
                    f"all were well, so this process ends with {code}: {error}\n"))

    def test_the_first_error_counts(self):
        note_end(Mismatch("first"))
        note_end(Diverged("second"))
        self.assertEqual(self.end(lambda: None)[0], 1)

    def test_a_code_of_the_programs_own_stays(self):
        note_end(Diverged("b is NaN"))
        self.assertEqual(self.end(lambda: sys.exit(5)), (5, ""))

    def test_the_end_of_the_others_is_no_error(self):
        note_end(Finished("all others have finished"))
        self.assertEqual(self.end(lambda: None), (0, ""))


# Ends as its words say, and tells what its handler at exit knows of that.
SCRIPT = """\
import atexit, os, signal, sys, threading
from lockstep import errors, exits
atexit.register(lambda: print("handler:", exits.code()))
exits.watch()
{0}
"""


class Exit(unittest.TestCase):
    def end(self, words):
        """The code of a process, what it wrote, and its errors."""
        root = pathlib.Path(errors.__file__).parent.parent
        ended = subprocess.run([sys.executable, "-c", SCRIPT.format(words)], cwd=root,
                               capture_output=True, text=True, timeout=60)
        return ended.returncode, ended.stdout, ended.stderr

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
                self.assertEqual(self.end(words)[:2], (code, f"handler: {code}\n"))


if __name__ == "__main__":
    unittest.main()
