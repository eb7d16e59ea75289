"""Holds the sources against the house rules that a compiler does not check.

Prints `file:line: message` for each finding and exits with 1 if there are any.
Usage: tidy.py [ROOT]
"""

import sys
from pathlib import Path

import document_rules
import include_rules
import text_rules
import tree_rules
from source_file import load_tree


def findings_of_file(file):
    for rule in (*text_rules.FILE_RULES, include_rules.check_include_edges):
        yield from rule(file)


def all_findings(root):
    files = load_tree(root)
    for file in files:
        yield from findings_of_file(file)
    yield from tree_rules.check_binaries(files)
    yield from tree_rules.check_listed_sources(files)
    yield from tree_rules.check_type_names(files)
    yield from tree_rules.check_header_names(files)
    yield from tree_rules.check_folder_sizes(files)
    yield from tree_rules.check_document_paths(files)
    yield from document_rules.check_pages(files)
    yield from tree_rules.check_copies(files)
    yield from tree_rules.check_format(files, root)


def main(arguments):
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[2]
    findings = sorted(set(all_findings(root)), key=lambda one: (one.path, one.line, one.message))
    for finding in findings:
        print(finding)
    for tool in tree_rules.missing_tools():
        print(f"not checked: {tool} is not installed")
    print(f"{len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
