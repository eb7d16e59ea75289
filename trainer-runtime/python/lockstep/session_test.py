"""What of a report's figures the library gets, what is refused before that, and how long a meeting
waits."""

import math
import os
import unittest
import unittest.mock

from lockstep.errors import InvalidArgument
from lockstep.session import MEETING_VARIABLE, Progress, figures_of, meeting_seconds


class Figures(unittest.TestCase):
    def test_what_is_not_known_is_the_librarys_word_for_that(self):
        told = figures_of(Progress(step=0))
        self.assertEqual((told.step, told.steps_total, told.data_epoch, told.sample_count),
                         (0, -1, -1, -1))
        for figure in (told.loss, told.accuracy, told.samples_per_second):
            self.assertTrue(math.isnan(figure))

    def test_negative_ones_are_refused_by_name(self):
        with self.assertRaisesRegex(InvalidArgument, "^step: -4 found, expected 0 or more$"):
            figures_of(Progress(step=-4))
        for name, value in (("steps_total", -1), ("data_epoch", -2), ("sample_count", -1),
                            ("accuracy", -0.5), ("samples_per_second", -1.0)):
            words = f"^{name}: {value} found, expected 0 or more, or None where it is not known$"
            with self.assertRaisesRegex(InvalidArgument, words):
                figures_of(Progress(step=1, **{name: value}))

    def test_loss_may_be_any_number(self):
        self.assertEqual(figures_of(Progress(step=1, loss=-2.5)).loss, -2.5)
        self.assertTrue(math.isnan(figures_of(Progress(step=1, loss=math.nan)).loss))


class Meetings(unittest.TestCase):
    def test_wait_as_long_as_the_job_says(self):
        for said, seconds in (("60", 60.0), ("7", 7.0), ("", 600.0), ("soon", 600.0),
                              ("0", 600.0), ("inf", 600.0), ("nan", 600.0)):
            with unittest.mock.patch.dict(os.environ, {MEETING_VARIABLE: said}):
                self.assertEqual(meeting_seconds(), seconds, said)


if __name__ == "__main__":
    unittest.main()
