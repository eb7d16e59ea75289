"""The ways in which a program for Horovod is started: by horovodrun, as a job beside Horovod
itself, and as a job with its imports changed, without Horovod. For tests and benchmarks."""

import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "local"))

from harness import REPOSITORY, command_manifest  # noqa: E402


def losses(text):
    """Of each step or epoch that a program has told of."""
    return [float(loss) for loss in re.findall(r"[Ss]tep #?\d+\s+[Ll]oss:? ([0-9.]+)", text)]


def step_milliseconds(text):
    """What a program says that each step took."""
    return float(re.search(r"each step took ([0-9.]+) ms", text)[1])


def by_horovodrun(python, ranks, command):
    """Words and environment that start `command` on so many ranks of this machine. `python`: that
    of Horovod's environment."""
    folder = pathlib.Path(python).parent
    words = [str(folder / "horovodrun"), "--gloo", "--network-interfaces", "lo",
             "-np", str(ranks), "-H", f"localhost:{ranks}", *command]
    return words, {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def first_rank(text):
    """What rank 0 has said of what horovodrun shows."""
    return "".join(re.findall(r"^\[0\]<stdout>:(.*\n)", text, re.MULTILINE))


def job(command, workers, processes=1, strategy="Horovod", **changes):
    """A manifest of pods that run `command`; `strategy` None for a program without Horovod."""
    return command_manifest(command, name="hvd", workers=workers, **changes).replace(
        "strategy: None", f"strategy: {strategy}").replace(
        f"replicas: {workers}", f"replicas: {workers}\n    processes: {processes}")


def without_horovod(library):
    """The words before those that run a program with its imports changed. `library`: the path of
    liblockstep."""
    return ["/usr/bin/env", f"PYTHONPATH={REPOSITORY / 'trainer-runtime' / 'python'}",
            f"LOCKSTEP_LIBRARY={library}"]


def changed(program, folder):
    """A copy of the program in `folder` whose imports are lockstep's, not Horovod's."""
    text, count = re.subn(r"^import horovod\b", "import lockstep.horovod",
                          pathlib.Path(program).read_text(), flags=re.MULTILINE)
    assert count > 0, f"{program} imports nothing of Horovod's"
    copy = folder / pathlib.Path(program).name
    copy.write_text(text)
    return copy
