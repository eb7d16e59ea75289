"""The examples: the command in the head of each manifest, run as it is pasted, and what the head
says that one sees. With LOCKSTEP_TEST_PYTHON all that this interpreter has the libraries for: that
is what scripts/test.sh --python and --peers do."""

import os
import re
import shlex
import unittest

from harness import BIN, REPOSITORY
from pasted import EXAMPLES, PastedTest, head
from python_case import PYTHON_WORDS, can_import

INDEX = REPOSITORY / "docs" / "examples.md"
# What an example needs besides Lockstep's programs and package: modules of its interpreter.
NEEDS = {
    "any-command.yaml": [],
    "gpu-rdma.yaml": [],
    "evaluator.yaml": ["torch"],
    "horovod_elastic.yaml": ["torch"],
    "horovod_tensorflow_elastic.yaml": ["tensorflow"],
    "horovod_torch.yaml": ["horovod.torch"],
    "hugging_face.yaml": ["transformers", "accelerate"],
    "mnist.yaml": [],
    "own_program.yaml": [],
    "own_program_jax.yaml": ["jax"],
    "own_program_python.yaml": ["numpy"],
    "tensorflow_mwms.yaml": ["tensorflow", "tf_keras"],
    "torch_ddp.yaml": ["torch"],
    "torch_fsdp.yaml": ["torch.distributed.device_mesh"],
    "torch_job.yaml": ["torch"],
}
# On an API server, by tests/kubernetes/pages_test.py.
ELSEWHERE = {"two-teams.yaml"}
# Of the gate. The others take longer or need more, and are left to interpreters that are named.
IN_GATE = ("any-command", "evaluator", "gpu-rdma", "torch_ddp", "torch_job")


class Example(PastedTest):
    def setUp(self):
        super().setUp()
        programs = self.scratch / "programs"
        programs.mkdir()
        python = programs / "python3"
        python.write_text(f'#!/bin/sh\nexec {shlex.join(PYTHON_WORDS)} "$@"\n')
        python.chmod(0o755)
        # For what is compiled, as after an installation of the library.
        include = REPOSITORY / "trainer-runtime" / "capi"
        self.before = (f"export PATH='{programs}':$PATH LD_LIBRARY_PATH='{BIN}' "
                       f"LIBRARY_PATH='{BIN}' CPATH='{include}'\n")

    def run_example(self, name):
        if not can_import(*NEEDS[name]):
            self.skipTest(f"needs: {', '.join(NEEDS[name])}")
        commands, seen = head(name)
        self.assertTrue(commands and seen, f"{name} does not say what to run and what one sees")
        self.assert_printed(seen, self.run_shell(self.before + commands))


def _test(name):
    return lambda self: self.run_example(name)


for _name in NEEDS:
    _stem = _name.removesuffix(".yaml")
    if _stem in IN_GATE or "LOCKSTEP_TEST_PYTHON" in os.environ:
        setattr(Example, f"test_{_stem.replace('-', '_')}", _test(_name))


class Index(unittest.TestCase):
    def test_each_manifest_is_run_and_has_its_line_in_the_index(self):
        manifests = {path.name for path in EXAMPLES.glob("*.yaml")}
        self.assertEqual(set(NEEDS) | ELSEWHERE, manifests)
        lines = re.findall(r"^\| \[`([\w.-]+)`\]", INDEX.read_text(), re.MULTILINE)
        self.assertEqual(sorted(lines), sorted(manifests))


if __name__ == "__main__":
    unittest.main(verbosity=2)
