#!/usr/bin/env python3
"""Copies docs/ to the folder that the site is built from.

The site has the pages of docs/ and nothing else of the repository. A link from a page to another
file becomes the text of the link and the file's path, so that the site has no dead link. A line
<!-- fields: DEFINITION SECTION --> becomes tables of all fields of that section.

Usage: scripts/docs_source.py FOLDER
"""

import os
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from field_tables import tables  # noqa: E402 (found through the line above)

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"

_FENCE = re.compile(r"^\s*```")
_FENCE_WITH_NAME = re.compile(r"^(\s*```\w+) .*$")
_FIELDS = re.compile(r"^<!-- fields: (\S+) (\S+) -->$")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def page_for_site(path, text):
    """The page's text as the site's generators read it."""
    lines = []
    in_code = False
    for line in text.split("\n"):
        if _FENCE.match(line):
            in_code = not in_code
            line = _FENCE_WITH_NAME.sub(r"\1", line)  # generators know one word there
        elif not in_code:
            fields = _FIELDS.match(line)
            if fields:
                lines.extend(tables(*fields.groups()))
                continue
            line = _LINK.sub(lambda link: link_for_site(path, link), line)
        lines.append(line)
    return "\n".join(lines)


def link_for_site(path, link):
    target = pathlib.Path(os.path.normpath(path.parent / link[2]))
    if target.is_relative_to(DOCS):
        return link[0]
    name = target.relative_to(REPOSITORY).as_posix()
    return f"`{name}`" if link[1] in (name, target.name) else f"{link[1]} (`{name}`)"


def main(arguments):
    if len(arguments) != 1:
        sys.exit("usage: scripts/docs_source.py FOLDER")
    folder = pathlib.Path(arguments[0])
    shutil.rmtree(folder, ignore_errors=True)
    for path in sorted(DOCS.rglob("*")):
        copy = folder / path.relative_to(DOCS)
        if path.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
        elif path.suffix == ".md":
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(page_for_site(path, path.read_text()))
        else:
            shutil.copy(path, copy)


if __name__ == "__main__":
    main(sys.argv[1:])
