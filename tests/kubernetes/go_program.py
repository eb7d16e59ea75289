"""Programs of other projects, built from their Go modules for the tests that ask for them."""

import json
import os
import pathlib
import shutil
import subprocess

from tools import tools_folder


def build(module, version, package, definitions, prepare=None):
    """The program of the module's package, and the folder of its definitions; built the first time,
    which takes minutes. `definitions` are the module's folders of those; `prepare` gets the folder
    of a copy of its source before that is built."""
    name = module.rsplit("/", 1)[-1]
    folder = tools_folder().parents[1] / f"{name}-{version}"
    program, defined = folder / f"{name}-controller", folder / "crds"
    if program.exists():
        return program, defined
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
    found = subprocess.run(["go", "mod", "download", "-json", f"{module}@{version}"], check=True,
                           capture_output=True, text=True, env=environment, cwd="/")
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(json.loads(found.stdout)["Dir"], source)
    subprocess.run(["chmod", "-R", "u+w", source], check=True)
    for each in definitions:
        shutil.copytree(source / each, defined, dirs_exist_ok=True)
    if prepare:
        prepare(source)
    subprocess.run(["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", f"{program}.new",
                    package], check=True, env=environment, cwd=source)
    shutil.rmtree(source)
    pathlib.Path(f"{program}.new").rename(program)
    return program, defined
