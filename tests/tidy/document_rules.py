"""Rules about documents as readers meet them: links into pages, lengths, and the site's menu."""

import os
import re

from source_file import Finding
from text_rules import prose_lines

PAGE_LINES_MAX = 300
MENU = "mkdocs.yml"
# Pages that the site has and its menu has not.
OUTSIDE_MENU = ("docs/decisions/", "docs/surprises/")

_PAGE = re.compile(r"^(README|CONTRIBUTING|SECURITY|CHANGELOG|docs/.*)\.md$")
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
_NAMED = re.compile(r"(?<![\w./-])(docs/[\w./-]*\.(?:md|svg))\b")
_MENU_ENTRY = re.compile(r"^[ \t]*-[ \t]+(?:[^#\n]*:[ \t]+)?([\w./-]+\.md)[ \t]*$", re.MULTILINE)
_LINK_TEXT = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def check_pages(files):
    """Every rule of this module."""
    pages = {file.path: file for file in files if file.path.endswith(".md")}
    anchors = {path: anchors_of(file) for path, file in pages.items()}
    yield from check_links(pages, anchors)
    yield from check_lengths(pages)
    yield from check_named_pages(files)
    yield from check_menu(files, pages)


def anchors_of(file):
    """The anchors of a page's headings, as GitHub and the site make them."""
    found = set()
    for _, line in prose_lines(file):
        heading = re.match(r"#+ (.*)", line)
        if heading:
            name = anchor_of(heading[1])
            number = 0
            while (name if number == 0 else f"{name}-{number}") in found:
                number += 1
            found.add(name if number == 0 else f"{name}-{number}")
    return found


def anchor_of(heading):
    text = _LINK_TEXT.sub(r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def check_links(pages, anchors):
    """A link into a page names a heading that is there, and a link that is written as a file's name
    goes to that file. Whether the file is there is a rule of tree_rules."""
    for path, file in pages.items():
        for number, line in prose_lines(file):
            for text, name, anchor in _LINK.findall(line):
                target = os.path.normpath(os.path.join(file.folder, name)) if name else path
                if anchor and target in anchors and anchor not in anchors[target]:
                    yield Finding(path, number, f"link to #{anchor}, which {target} has not")
                if re.fullmatch(r"[\w-]+\.md", text) and text != os.path.basename(target):
                    yield Finding(path, number, f"link to {target} is written as {text}")


def check_lengths(pages):
    for path, file in pages.items():
        if not _PAGE.match(path):
            continue
        count = len(file.lines)
        if count > PAGE_LINES_MAX:
            yield file.finding(
                PAGE_LINES_MAX + 1, f"{count} lines, the limit is {PAGE_LINES_MAX} a page")


def check_named_pages(files):
    """What a comment, a message or a script calls docs/x.md is there."""
    paths = {file.path for file in files}
    for file in files:
        if file.text is None or file.path.startswith("tests/tidy/"):
            continue
        for number, line in enumerate(file.lines, 1):
            for name in _NAMED.findall(line):
                if name not in paths and not _is_relative(file, name, paths):
                    yield Finding(file.path, number, f"there is no {name}")


def _is_relative(file, name, paths):
    return os.path.normpath(os.path.join(file.folder, name)) in paths


def check_menu(files, pages):
    """The site's menu has every page once, except those that are meant to stay outside."""
    menu = next((file for file in files if file.path == MENU), None)
    if menu is None:
        return
    entries = ["docs/" + entry for entry in _MENU_ENTRY.findall(menu.text or "")]
    for entry in sorted(set(entries)):
        if entry not in pages:
            yield Finding(MENU, 0, f"the menu has {entry}, which is not there")
        if entries.count(entry) > 1:
            yield Finding(MENU, 0, f"the menu has {entry} twice")
    for path in sorted(pages):
        is_ours = path.startswith("docs/") and not path.startswith(OUTSIDE_MENU)
        if is_ours and path not in entries:
            yield Finding(path, 0, f"the menu in {MENU} lacks this page")
