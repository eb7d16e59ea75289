"""What of a report's figures the library gets, what is refused before that, and how long a meeting
waits."""

import math
import os
import unittest
import unittest.mock

from lockstep import errors
from lockstep.errors import Diverged, InvalidArgument, LockstepError, Mismatch
from lockstep.library import DataType
from lockstep.session import (
    MEETING_VARIABLE, Meeting, Memory, Progress, Session, figures_of, meeting_seconds)


class Figures(unittest.TestCase):
    def test_what_is_not_known_is_the_librarys_word_for_that(self):
        told = figures_of(Progress(step=0))
        self.assertEqual((told.step, told.steps_total, told.data_epoch, told.sample_count),
                         (0, -1, -1, -1))
        for figure in (told.loss, told.accuracy, told.samples_per_second):
            self.assertTrue(math.isnan(figure))

    def test_negative_ones_are_refused_by_name(self):
        words = "^step: -4 found, expected a whole number from 0$"
        with self.assertRaisesRegex(InvalidArgument, words):
            figures_of(Progress(step=-4))
        for kind, names in (("a whole number from 0", ("steps_total", "data_epoch",
                                                       "sample_count")),
                            ("0 or more", ("accuracy", "samples_per_second"))):
            for name in names:
                words = f"^{name}: -2 found, expected {kind}, or None if the value is not known$"
                with self.assertRaisesRegex(InvalidArgument, words):
                    figures_of(Progress(step=1, **{name: -2}))

    def test_what_is_no_such_number_is_refused_by_name(self):
        for name, value, words in (
                ("step", 2**70, f"step: {2**70} found, expected a whole number from 0 to "
                                f"{2**63 - 1}"),
                ("step", 2.5, "step: 2.5 found, expected a whole number from 0"),
                ("loss", "nan", "loss: 'nan' found, expected a number"),
                ("accuracy", [1], "accuracy: \\[1\\] found, expected a number"),
                ("phase", "training", "phase: 'training' found, expected a lockstep.Phase: KEEP"),
                ("phase", 99, "phase: 99 found")):
            with self.assertRaisesRegex(InvalidArgument, "^" + words):
                figures_of(Progress(**{"step": 1, name: value}))

    def test_loss_may_be_any_number(self):
        self.assertEqual(figures_of(Progress(step=1, loss=-2.5)).loss, -2.5)
        self.assertTrue(math.isnan(figures_of(Progress(step=1, loss=math.nan)).loss))


class Meetings(unittest.TestCase):
    def test_wait_as_long_as_the_job_says(self):
        for said, seconds in (("60", 60.0), ("7", 7.0), ("", 600.0), ("soon", 600.0),
                              ("0", 600.0), ("inf", 600.0), ("nan", 600.0)):
            with unittest.mock.patch.dict(os.environ, {MEETING_VARIABLE: said}):
                self.assertEqual(meeting_seconds(), seconds, said)


class NoLibrary(Session):
    """A session whose calls get past its own checks only by failing the test."""

    def __init__(self):
        self._meeting = Meeting(1, 0, 1, None, ())

    def _memory(self, array, name, is_written):
        return Memory(0, 0, DataType.UINT8)

    def _shape(self, array):
        return ()

    def _empty(self, like, shape):
        return like

    def _call(self, name, *arguments):
        raise AssertionError(f"{name}{arguments}")


class Arguments(unittest.TestCase):
    def test_each_is_refused_by_name_before_the_library_gets_it(self):
        one = NoLibrary()
        for words, call in (
                ("root: 'x' found, expected a whole number from 0$", lambda: one.broadcast(0, "x")),
                ("root: -1 found", lambda: one.broadcast(0, -1)),
                (f"root: {2**40} found, expected a whole number from 0 to {2**31 - 1}",
                 lambda: one.broadcast(0, 2**40)),
                ("step: 2.5 found", lambda: one.meet(True, 2.5)),
                ("step: 'x' found", lambda: one.meet(True, "x")),
                ("timeout: 'x' found, expected a number$", lambda: one.barrier("x")),
                ("timeout: None found", lambda: one.all_reduce(0, timeout=None)),
                ("timeout: 0 found, expected a number of seconds above 0$", lambda: one.finish(0)),
                ("timeout: nan found", lambda: one.should_stop(float("nan"))),
                ("timeout: -1 found", lambda: one.all_gather(0, timeout=-1))):
            with self.assertRaisesRegex(InvalidArgument, "^" + words):
                call()


class Ends(unittest.TestCase):
    def test_a_mismatch_that_ends_the_work_is_told_to_the_runtime_and_nothing_else_is(self):
        one = NoLibrary()
        for error, told in ((Mismatch("ranks differ"), [("report_mismatch", b"ranks differ")]),
                            (Diverged("the loss is NaN"), [])):
            calls = []
            one._call = lambda *arguments: calls.append(arguments)
            with unittest.mock.patch.object(errors, "_end", None):
                one.note_end(error)
                self.assertEqual(errors._end[2], str(error))
            self.assertEqual(calls, told)

    def test_a_closed_session_is_in_the_way_of_no_end(self):
        one = NoLibrary()
        one._call = unittest.mock.Mock(side_effect=LockstepError("closed", errors.Status.CLOSED))
        with unittest.mock.patch.object(errors, "_end", None):
            one.note_end(Mismatch("ranks differ"))


class Sentences(unittest.TestCase):
    def test_functions_of_the_library_are_called_as_here(self):
        for sentence, expected in (
                ("no rendezvous yet: call lockstep_meet first",
                 "no rendezvous yet: call meet first"),
                ("close it first (lockstep_close; in Python its close())",) * 2,
                ("LOCKSTEP_JOB_KEY_FILE is not set",) * 2):
            self.assertEqual(str(errors.error_of(errors.Status.NOT_MET, sentence)), expected)


if __name__ == "__main__":
    unittest.main()
