#!/usr/bin/env python3
"""Lists every string that a person can see: FILE:LINE: TEXT.

These are conditions, events, errors, help texts, summaries and log lines of the C++ sources, the
errors of the Python package, and the descriptions of the definitions. {} stands for a value that
is put in. A string of one word is left out: names of fields and metrics, reason codes, formats.

Usage: scripts/list_strings.py [--sample COUNT SEED] [PATH...]
"""

import argparse
import ast
import pathlib
import random
import re
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PATHS = ("common", "operator", "trainer-runtime", "crds")

_TOKEN = re.compile(r'#[^\n]*|//[^\n]*|/\*.*?\*/|R"\((?P<raw>.*?)\)"|"(?P<text>(?:[^"\\\n]|\\.)*)"'
                    r"|'(?:[^'\\\n]|\\.)'|\s+|[\w.]+|->|::|.", re.DOTALL)
_WORDS = re.compile(r"[A-Za-z]{2,}[,;:]? [A-Za-z]{2,}")
_DESCRIPTION = re.compile(r'^( *)(?:description|message): (?:>-|\|-)?(.*)$')


def strings_of_cpp(text):
    """(line, text) of each expression that adds literals and values up to a text."""
    parts, line, start, depth = [], 1, 1, 0
    for token in _TOKEN.finditer(text):
        literal = token["text"] if token["text"] is not None else token["raw"]
        word = token[0]
        if literal is not None:
            if not parts:
                start, depth = line, 0
            parts.append(literal)
        elif parts and not word.isspace() and not word.startswith(("//", "/*", "#")):
            depth += word in "([{"
            depth -= word in ")]}"
            if word in ",;?:" and depth <= 0 or depth < 0 or word == "<<":
                yield start, joined(parts)
                parts = []
            elif word == "+" or parts[-1] == "{}":
                pass
            else:
                parts.append("{}")
        line += word.count("\n")
    if parts:
        yield start, joined(parts)


def joined(parts):
    return "".join(parts).replace("\\n", " ").replace('\\"', '"')


def strings_of_python(text):
    """(line, text) of each whole expression of text, without docstrings."""
    waiting = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        said = said_by(node)
        if said.strip("{}"):
            yield node.lineno, joined([said])
        else:
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def said_by(node):
    """The text of an expression, with {} for its values; only "{}" for what has no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(said_by(value) for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return said_by(node.left) + said_by(node.right)
    return "{}"


def strings_of_definition(text):
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        found = _DESCRIPTION.match(line)
        if not found:
            continue
        said = [found[2].strip(" \"'")]
        for more in lines[number:]:
            if not more.startswith(found[1] + "  "):
                break
            said.append(more.strip())
        yield number, " ".join(said).strip()


READERS = {".cc": strings_of_cpp, ".h": strings_of_cpp, ".py": strings_of_python,
           ".yaml": strings_of_definition}


def is_shown(path):
    return (path.suffix in READERS and "_test." not in path.name
            and not {"testing", "examples", "testdata", "script", "third_party"} & set(path.parts))


def strings(paths):
    """(place, text) of every string below the paths, in the order of files."""
    for path in paths:
        root = REPOSITORY / path
        for file in [root] if root.is_file() else sorted(root.rglob("*")):
            if file.is_file() and is_shown(file.relative_to(REPOSITORY)):
                name = file.relative_to(REPOSITORY).as_posix()
                for line, text in READERS[file.suffix](file.read_text(errors="replace")):
                    if _WORDS.search(text):
                        yield f"{name}:{line}", " ".join(text.split())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("paths", nargs="*", default=PATHS, help="files or folders")
    parser.add_argument("--sample", nargs=2, type=int, metavar=("COUNT", "SEED"),
                        help="list only COUNT strings, chosen at random with SEED")
    arguments = parser.parse_args()
    found = list(strings(arguments.paths))
    if arguments.sample:
        count, seed = arguments.sample
        found = random.Random(seed).sample(found, min(count, len(found)))
    sys.stdout.writelines(f"{place}: {text}\n" for place, text in found)


if __name__ == "__main__":
    main()
