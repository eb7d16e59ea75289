"""Rules about the tree as a whole."""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

from source_file import Finding

BINARY_HOME = "examples/data/"
CODE_FOLDERS = ("common/", "operator/", "trainer-runtime/", "tests/")
CLANG_FORMAT = "clang-format-14"  # the version is part of the style: others format otherwise

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
