"""Rules about the tree as a whole."""

import collections
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

from source_file import Finding

BINARY_HOME = "examples/data/"
CODE_FOLDERS = ("common/", "operator/", "trainer-runtime/", "tests/")
PROGRAM_FOLDERS = ("common/", "operator/", "trainer-runtime/")
COPIES = {
    "crds/lockstep.dev_trainingjobs.yaml": "helm/lockstep/files/lockstep.dev_trainingjobs.yaml",
    "crds/lockstep.dev_trainingqueues.yaml": "helm/lockstep/files/lockstep.dev_trainingqueues.yaml",
}
CLANG_FORMAT = "clang-format-14"  # the version is part of the style: others format otherwise

# Sources of one folder, not counting tests: of more, nobody knows which to open.
SOURCES_MAX = 40

_NAMESPACE = re.compile(r"\bnamespace\b\s*([\w:]*)\s*$")
_TYPE = re.compile(
    r"\b(?:class|struct|union|enum(?:\s+class)?)\s+(?:\[\[\w+\]\]\s*)?(\w+)\b(?!\s*<|::)"
    r"(?:\s+final)?\s*(?::[^()]*)?$"
)
_OUR_PATH = re.compile(
    r"(?<![\w./-])"
    r"((?:common|operator|trainer-runtime|crds|helm|docker|examples|cmake|scripts|tests)/"
    r"[\w./-]*\w)(?![\w*{<])"
)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
_WORD = re.compile(r"[^\s()\"]+")


def check_binaries(files):
    for file in files:
        if file.text is None and not file.path.startswith(BINARY_HOME):
            yield file.finding(0, f"binary file; only {BINARY_HOME} holds those")


def check_listed_sources(files):
    """Each source stands in the CMakeLists.txt of its folder, or of the nearest one above."""
    lists = {
        file.folder: set(_WORD.findall(re.sub(r"#.*", "", file.text or "")))
        for file in files
        if file.name == "CMakeLists.txt"
    }
    for file in files:
        if not file.path.endswith((".cc", ".cu")) or not file.path.startswith(CODE_FOLDERS):
            continue
        folder = file.folder
        while folder and folder not in lists:
            folder = folder.rpartition("/")[0]
        name = file.path[len(folder) + 1 :] if folder else file.path
        if name not in lists.get(folder, set()):
            yield file.finding(0, f"no target lists it: add it to {folder}/CMakeLists.txt")


def check_type_names(files):
    """One type name, one meaning: no name twice in a namespace, in different files. Two of them in
    one program are undefined behaviour that no linker reports."""
    homes = {}
    for file in files:
        if file.is_cpp and file.path.startswith(PROGRAM_FOLDERS):
            for name, line in _types_of(file.code):
                homes.setdefault(name, []).append(Finding(file.path, line, name))
    for name, places in sorted(homes.items()):
        first = places[0]
        for place in places[1:]:
            if place.path != first.path:
                yield Finding(place.path, place.line, f"type {name} is also in {first.path}")


def _types_of(code):
    """(qualified name, line) of each type defined at namespace scope; nameless namespaces are a
    file's own business."""
    code = re.sub(r"^\s*#.*", "", code, flags=re.MULTILINE)
    scopes = []  # names of open namespaces; None for any other block
    head_begin = 0
    for match in re.finditer(r"[{};]", code):
        head = code[head_begin : match.start()]
        if match.group() == "{":
            found = _NAMESPACE.search(head)
            type_found = None if found else _TYPE.search(head)
            if type_found and None not in scopes:
                line = code.count("\n", 0, head_begin + type_found.start(1)) + 1
                yield "::".join([*scopes, type_found[1]]), line
            scopes.append((found[1] or None) if found else None)
        elif match.group() == "}" and scopes:
            scopes.pop()
        head_begin = match.end()


def check_header_names(files):
    """No header has the name of another: a name alone says which file is meant."""
    homes = {}
    for file in files:
        if file.path.endswith((".h", ".cuh")):
            first = homes.setdefault(file.name, file.path)
            if first != file.path:
                yield file.finding(0, f"{first} has this name, too: one name, one header")


def check_folder_sizes(files):
    """No folder has more sources than a reader looks through."""
    counts = collections.Counter(
        file.folder
        for file in files
        if file.is_cpp and file.path.startswith(PROGRAM_FOLDERS) and not file.is_test
    )
    for folder, count in sorted(counts.items()):
        if count > SOURCES_MAX:
            problem = f"{count} sources, at most {SOURCES_MAX}: divide it into folders by subject"
            yield Finding(folder, 0, problem)


def check_document_paths(files):
    """A document names no file of ours that is not there."""
    paths = {file.path for file in files}
    folders = {
        path.rsplit("/", depth)[0] for path in paths for depth in range(1, path.count("/") + 1)
    }
    for file in files:
        if not file.path.endswith(".md"):
            continue
        for number, line in enumerate(file.lines, 1):
            for match in _OUR_PATH.finditer(line):
                path = match[1].rstrip("/.")
                stem = any(one.startswith(path + ".") for one in paths)
                if path not in paths and path not in folders and not stem:
                    yield Finding(file.path, number, f"there is no {path}")
            for match in _LINK.finditer(line):
                target = os.path.normpath(os.path.join(file.folder, match[1]))
                if target not in paths and target not in folders:
                    yield Finding(file.path, number, f"link to {match[1]}, which is not there")


def check_copies(files):
    """Helm complains of links, so the chart holds a copy of the definition, which is kept equal."""
    texts = {file.path: file.text for file in files}
    for original, copy in COPIES.items():
        if original in texts and texts.get(copy) != texts[original]:
            yield Finding(copy, 0, f"differs from {original}: copy it")


def check_format(files, root):
    """Differences from clang-format. Silent, but told by missing_tools, where it is missing."""
    program = shutil.which(CLANG_FORMAT)
    paths = [file.path for file in files if file.is_cpp]
    if program is None or not paths:
        return
    workers = max(1, os.cpu_count() or 1)
    batches = [paths[start::workers] for start in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        for output in pool.map(lambda batch: _run_format(program, batch, root), batches):
            for path, line in re.findall(r"^(.+?):(\d+):\d+: error: ", output, re.MULTILINE):
                yield Finding(path, int(line), f"run {CLANG_FORMAT} -i")


def _run_format(program, paths, root):
    if not paths:
        return ""
    run = subprocess.run(
        [program, "--dry-run", "--Werror", "--ferror-limit=1", *paths],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stderr


def missing_tools():
    return [] if shutil.which(CLANG_FORMAT) else [CLANG_FORMAT]
