"""The unit tests of the Python package, which lie beside its modules, and its declarations beside
lockstep.h."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from python_case import PACKAGE, VARIABLES, can_import, can_make_backends

os.environ.update(VARIABLES)
sys.path.insert(0, str(PACKAGE))

from lockstep import errors, library  # noqa: E402

HEADER = PACKAGE.parent / "capi" / "lockstep.h"
STRUCTURES = {"options": library.Options, "meeting": library.MeetingOut,
              "member": library.MemberOut, "progress": library.ProgressIn,
              "checkpoint": library.CheckpointIO, "tensor": library.TensorIO}


def load_tests(loader, tests, _):
    """Those of torch, and of NumPy, where there is one. Packages of other libraries are not
    imported, as unittest's own discovery would."""
    needs = (("torch", "torch"), ("torchrun", "torch"), ("horovod", "numpy"))
    missing = {part for part, library in needs if not can_import(library)}
    missing |= set() if can_make_backends() else {"groups"}  # its folder, which cannot be imported
    for path in sorted(PACKAGE.glob("lockstep*/**/*_test.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if not missing.intersection(parts):
            tests.addTests(loader.loadTestsFromName(".".join(parts)))
    return tests


class Declarations(unittest.TestCase):
    def setUp(self):
        self.text = HEADER.read_text()

    def numbers(self, prefix):
        return {name: int(number) for name, number in
                re.findall(rf"^  {prefix}(\w+) = (\d+)", self.text, re.MULTILINE)}

    def test_numbers_are_those_of_the_header(self):
        statuses = {**self.numbers("LOCKSTEP_ERROR_"), "OK": 0}
        self.assertEqual({one.name: one.value for one in errors.Status}, statuses)
        phases = self.numbers("LOCKSTEP_PHASE_")
        self.assertEqual({one.name: one.value for one in library.Phase}, phases)
        for kind, enumeration in (("type", library.DataType), ("op", library.Op)):
            body = re.search(rf"enum lockstep_{kind} {{(.*?)}}", self.text, re.DOTALL)[1]
            found = re.findall(r"LOCKSTEP_(\w+) = (\d+)", body)
            self.assertEqual([(one.name, str(one.value)) for one in enumeration], found)
        word = re.search(r"& ?(0x\w+)\) \* (\d+)\)$", self.text, re.MULTILINE)
        self.assertEqual([int(number, 0) for number in word.groups()],
                         [library.TYPE_WORD_MAX, library.TYPE_WORD_ONE])
        leaves = {**self.numbers("LOCKSTEP_LEAVE_"), "NOT": 0}
        self.assertEqual({one.name: one.value for one in library.Leave}, leaves)

    def test_functions_are_those_of_the_header_with_as_many_arguments(self):
        declared = {
            name: 0 if arguments.strip() == "void" else arguments.count(",") + 1
            for name, arguments in re.findall(
                r"^(?:lockstep_status|const char\*|int) (lockstep_\w+)\(([^)]*)\);", self.text,
                re.MULTILINE)
        }
        self.assertGreaterEqual(len(declared), 16)
        self.assertEqual(
            {name: len(types) for name, types in library._PROTOTYPES.items()}, declared)

    def test_structures_lie_as_the_compiler_lays_them(self):
        prints = []
        expected = []
        for name, structure in STRUCTURES.items():
            for field, _ in structure._fields_:
                place = getattr(structure, field)
                prints.append((f"{name}.{field}", f"offsetof(lockstep_{name}, {field})"))
                expected.append(f"{name}.{field} {place.offset}")
                prints.append(("bytes", f"sizeof(((lockstep_{name}*)0)->{field})"))
                expected.append(f"bytes {place.size}")
            prints.append((name, f"sizeof(lockstep_{name})"))
            expected.append(f"{name} {library.ctypes.sizeof(structure)}")
        calls = "\n".join(f'printf("{name} %zu\\n", {value});' for name, value in prints)
        program = ("#include <stddef.h>\n#include <stdio.h>\n#include <lockstep.h>\n"
                   f"int main(void) {{\n{calls}\nreturn 0;\n}}\n")
        with tempfile.TemporaryDirectory(prefix="lockstep-test-") as folder:
            built = pathlib.Path(folder) / "sizes"
            subprocess.run(["cc", "-std=c99", f"-I{HEADER.parent}", "-xc", "-", "-o", built],
                           input=program, text=True, check=True)
            found = subprocess.run([built], capture_output=True, text=True, check=True).stdout
        self.assertEqual(found.splitlines(), expected)


if __name__ == "__main__":
    program = unittest.main(verbosity=1, exit=False)
    errors._end = None  # tests made jobs fail, which is no end of this process
    sys.exit(not program.result.wasSuccessful())
