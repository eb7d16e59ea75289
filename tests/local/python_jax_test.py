"""lockstep.jax: what calls do in compiled programs and outside, how errors are told, and
examples/own_program_jax.py, whose lost ranks are replaced while the others keep their processes."""

import pathlib
import re
import unittest

from harness import REPOSITORY, LocalTest, command_manifest
from own_program_case import OwnProgramCase
from python_case import can_import, python_words

RANK = pathlib.Path(__file__).with_name("python_jax_rank.py")
NEEDED = "jax is not installed for this interpreter; scripts/test.sh --python installs it"


@unittest.skipUnless(can_import("jax"), NEEDED)
class Calls(LocalTest):
    """Each part of python_jax_rank.py checks itself."""

    def run_part(self, part, workers=2):
        run = self.run_job(command_manifest(python_words(RANK, part), workers=workers))
        self.assertEqual(run.exit_code, 0, run.output)

    def test_every_collective_and_type_compiled_and_not(self):
        self.run_part("collectives", workers=3)

    def test_unsigned_numbers_and_keys_of_generators(self):
        self.run_part("unsigned")

    def test_wrong_arguments(self):
        self.run_part("arguments")

    def test_ranks_that_call_different_things(self):
        self.run_part("mismatch")


@unittest.skipUnless(can_import("jax"), NEEDED)
class Distributed(LocalTest):
    """JAX's own processes."""

    def test_initialize_with_the_variables_that_the_docs_name(self):
        text = (REPOSITORY / "docs" / "reference" / "python.md").read_text()
        block = re.search(r"```python\n(import jax\n.*?jax.distributed.initialize.*?)```", text,
                          re.DOTALL)[1]
        words = python_words("-c", block + "print('one of', jax.process_count(), flush=True)")
        run = self.run_job(command_manifest(words, workers=2))
        self.assertEqual(run.exit_code, 0, run.output)
        self.assertEqual(run.output.count("one of 2"), 2, run.output)


@unittest.skipUnless(can_import("jax"), NEEDED)
class Recovery(OwnProgramCase):
    """examples/own_program_jax.py, disturbed."""

    program = python_words(REPOSITORY / "examples" / "own_program_jax.py")

    def test_killed_ranks_are_replaced_and_the_model_is_that_of_an_undisturbed_run(self):
        self.check_killed_ranks([1, 2])


if __name__ == "__main__":
    unittest.main(verbosity=2)
