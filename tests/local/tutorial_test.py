"""Tutorials: their commands, run as they are pasted, and what they say that one sees."""

import re
import shutil
import subprocess
import unittest

from harness import BIN, REPOSITORY, LocalTest
from lanes import long
from pasted import SESSION_SECONDS_MAX, PastedTest
from python_case import PACKAGE, PLACEHOLDERS, PYTHON, can_import

TUTORIALS = REPOSITORY / "docs" / "tutorials"
MARK = "=== block"


def blocks(page, *kinds):
    """(kind, text) of the fenced blocks of these kinds, in their order."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [(kind, text) for kind, text in found if kind in kinds]


class TutorialTest(PastedTest):
    def paste(self, page, skipped, before=""):
        """Pastes the page's commands into one shell, except the blocks that begin with one of
        `skipped`; holds what it says to what is printed. Returns the output by block."""
        found = blocks(TUTORIALS / page, "sh", "text")
        commands = [text for kind, text in found if kind == "sh"]
        for begin in skipped:
            self.assertTrue(any(text.startswith(begin) for text in commands), begin)
        shell = before
        for text in commands:
            shell += f"\necho '{MARK}'\n"
            if not text.startswith(tuple(skipped)):
                shell += text
        output = self.run_shell(shell)
        parts = output.split(MARK + "\n")[1:]
        self.assertEqual(len(parts), len(commands), output)
        self.compare(found, parts)
        return parts

    def compare(self, found, parts):
        """Each line of a page's `text` block is printed by the commands above it."""
        printed = iter(parts)
        output = ""
        for kind, text in found:
            if kind == "sh":
                output = next(printed)
            else:
                self.assert_printed(text, output)

    def test_first_training_on_a_laptop(self):
        parts = self.paste("laptop.md", skipped=("scripts/demo.sh", "export PATH="))
        first, second = (re.search(r"training loss (\S+)", parts[at])[1] for at in (4, 5))
        self.assertEqual(first, second, "the killed worker changed the result")
        self.assertFalse((self.scratch / "first").exists())

    def test_from_kubeflow(self):
        self.paste("migrate.md", skipped=("kubectl apply",))

    @unittest.skipUnless(can_import("torch"), "needs: torch")
    @long
    def test_pytorch_script_recovers(self):
        """With the package as it lies in the repository, in place of its installation."""
        library = self.scratch / "library"
        library.mkdir()
        shutil.copy(BIN / "liblockstep.so.1", library)
        before = (
            f"{PYTHON} -m venv --without-pip --system-site-packages venv\n. venv/bin/activate\n"
            f"echo '{PACKAGE}' >$(echo venv/lib/python3*/site-packages)/lockstep.pth\n"
            f"export LD_LIBRARY_PATH='{library}:{PLACEHOLDERS}'\n"
            "export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1\n")
        parts = self.paste("pytorch.md", skipped=("sudo apt-get",), before=before)
        killed, stopped, resumed = parts[4], parts[5], parts[6]
        self.assertRegex(killed, r"chaos: kill worker-1")
        self.assertRegex(killed, r"restarts +1: killed 1")
        self.assertIn("lost 0, repeated 0", killed)
        self.assertRegex(stopped, r"exit code 130")
        self.assertIn("lost 0, repeated 0", resumed)


class ManifestsTest(unittest.TestCase):
    def test_every_manifest_of_readme_tutorials_and_how_tos_is_valid(self):
        pages = [REPOSITORY / "README.md", *TUTORIALS.glob("*.md"),
                 *(REPOSITORY / "docs" / "how-to").glob("*.md")]
        checked = 0
        for page in pages:
            for _, text in blocks(page, "yaml"):
                if not re.search(r"^kind: Training(Job|Queue)$", text, re.MULTILINE):
                    continue
                with self.subTest(page=page.name, manifest=text):
                    ran = subprocess.run([BIN / "lockstep", "validate", "-"], input=text,
                                         capture_output=True, text=True, check=False)
                    self.assertEqual((ran.returncode, ran.stderr), (0, ""))
                    checked += 1
        self.assertGreater(checked, 0)


class RecordingTest(LocalTest):
    engine = None

    def test_recording_draws_what_was_printed(self):
        picture = self.scratch / "demo.svg"
        subprocess.run(
            [REPOSITORY / "scripts" / "record_demo.py", "--bin", BIN, "--runs", "1", "--output",
             picture], check=True, capture_output=True, timeout=SESSION_SECONDS_MAX)
        text = picture.read_text()
        seconds = re.search(r"<desc>The next step comes (\S+) s after the kill", text)[1]
        self.assertIn(f"training again after {seconds} s", text)
        self.assertRegex(text, r'class="harm appears" style="animation-delay: \d')
        self.assertIn("samples       18000 used, 0 lost, 0 repeated", text)
        self.assertNotIn(str(self.scratch), text)

    def test_readme_names_the_time_of_its_picture(self):
        text = (REPOSITORY / "docs" / "demo.svg").read_text()
        seconds = re.search(r"<desc>The next step comes (\S+) s after the kill", text)[1]
        self.assertIn(f"training continues {seconds} s later](docs/demo.svg)",
                      (REPOSITORY / "README.md").read_text())


if __name__ == "__main__":
    unittest.main()
