"""What is said of names that Horovod has and lockstep.horovod has not."""

import unittest

from lockstep.errors import InvalidArgument
from lockstep.horovod import arguments, refusals


class Refusals(unittest.TestCase):
    def test_names_of_horovods_are_told_from_others(self):
        self.assertFalse(refusals.missing("m", "nccl_built", ())())
        with self.assertRaisesRegex(AttributeError, "start_timeline of Horovod is not"):
            refusals.missing("m", "start_timeline", ())
        with self.assertRaisesRegex(AttributeError, "own of Horovod is not available in m"):
            refusals.missing("m", "own", ("own",))
        with self.assertRaisesRegex(AttributeError, "module 'm' has no attribute 'other'"):
            refusals.missing("m", "other", ("own",))

    def test_global_variables_are_refused_with_what_the_module_has_instead(self):
        with self.assertRaises(InvalidArgument) as raised:
            refusals.no_global_variables("call this")
        self.assertEqual(
            str(raised.exception),
            "broadcast_global_variables: TensorFlow 2 has no global variables: call this")

    def test_elements_outside_of_their_array_are_refused_by_call_and_type(self):
        arguments.check_elements("Sum", "float32", True, "x")
        for name, words in (("x", "x: Sum of string found, expected numbers: for other objects"),
                            (None, "^Sum of string found, expected numbers: ")):
            with self.assertRaisesRegex(InvalidArgument, words):
                arguments.check_elements("Sum", "string", False, name, "numbers")


if __name__ == "__main__":
    unittest.main()
