"""How `run` ends a process, also where the program caught an error that has ended its work."""

import contextlib
import io
import sys
import unittest
import unittest.mock

from lockstep import errors, exits
from lockstep.errors import Diverged, Finished, Mismatch, NotSaved, Stopped, note_end, run


class Run(unittest.TestCase):
    def setUp(self):
        for module, name in ((errors, "_end"), (exits, "_asked")):
            nothing = unittest.mock.patch.object(module, name, None)
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
                    code, f"lockstep: the program caught {type(error).__name__} and ended with "
                    f"exit code 0, so this process ends with {code} instead: {error}\n"))

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


if __name__ == "__main__":
    unittest.main()
