"""Files of the work tree as the rules see them."""

import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

CPP_SUFFIXES = (".cc", ".h", ".cu", ".cuh")

# Numbers come first, so that the ' in 1'000 does not open a character literal.
_TOKENS = re.compile(
    r"""(?P<number>\b\d[\w']*)
      |(?P<raw>R"(?P<mark>[^()\s\\"]{0,16})\(.*?\)(?P=mark)")
      |(?P<string>"(?:\\.|[^"\\\n])*")
      |(?P<char>'(?:\\.|[^'\\\n])*')
      |(?P<line>//[^\n]*)
      |(?P<block>/\*.*?\*/)""",
    re.VERBOSE | re.DOTALL,
)


def _blank(match):
    """A literal or comment without its content, on as many lines as before."""
    if match.lastgroup == "number":
        return match.group()
    quotes = '""' if match.group()[0] in "R\"'" else ""
    return quotes + "\n" * match.group().count("\n")


@dataclass(frozen=True)
class Finding:
    """One broken rule at one place; line 0 means the file as a whole."""

    path: str
    line: int
    message: str

    def __str__(self):
        return f"{self.path}:{max(self.line, 1)}: {self.message}"


class SourceFile:
    """One file: its path from the root with forward slashes, and its content."""

    def __init__(self, path, content):
        self.path = path
        self.content = content

    @cached_property
    def text(self):
        """The content as text; None for a binary file."""
        if b"\0" in self.content:
            return None
        try:
            return self.content.decode("utf-8")
        except UnicodeDecodeError:
            return None

    @cached_property
    def lines(self):
        return (self.text or "").splitlines()

    @cached_property
    def code(self):
        """C++ without comments and the content of literals, line for line."""
        return _TOKENS.sub(_blank, self.text or "")

    @cached_property
    def code_lines(self):
        return self.code.split("\n")

    @property
    def folder(self):
        return self.path.rpartition("/")[0]

    @property
    def name(self):
        return self.path.rpartition("/")[2]

    @property
    def is_cpp(self):
        return self.path.endswith(CPP_SUFFIXES)

    @property
    def is_test(self):
        """Tests and what only tests use."""
        return (
            re.search(r"_(test(_\w+)?|checks)\.(cc|h)$", self.path) is not None
            or self.path.startswith("tests/")
            or re.search(r"/test(ing)?[_/]", self.path) is not None
        )

    def line_at(self, offset):
        """The line number, from 1, of an offset into `code`."""
        return self.code.count("\n", 0, offset) + 1

    def finding(self, line, message):
        return Finding(self.path, line, message)


def list_paths(root):
    """Files that are in the repository or could be added to it; ignored ones are left out."""
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listing.returncode != 0:  # an unpacked archive
        hidden = ("build", ".git", "runs")
        return sorted(
            path.relative_to(root).as_posix()
            for path in root.rglob("*")
            if path.is_file() and path.relative_to(root).parts[0] not in hidden
        )
    names = set(listing.stdout.decode("utf-8").split("\0")) - {""}
    return sorted(name for name in names if (root / name).is_file())


def load_tree(root):
    root = Path(root)
    return [SourceFile(path, (root / path).read_bytes()) for path in list_paths(root)]
