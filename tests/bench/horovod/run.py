#!/usr/bin/env python3
"""What a step of a TensorFlow program for Horovod takes, by Horovod itself under horovodrun and,
with its imports changed, as a job without Horovod, in turns on one machine.

Both use the same TensorFlow, which is that of Horovod's environment
(tests/peers/horovod_tensorflow.sh makes it).
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
PEERS = REPOSITORY / "tests" / "peers"
sys.path.insert(0, str(PEERS))

from horovod_ways import (  # noqa: E402
    by_horovodrun, changed, first_rank, job, step_milliseconds, without_horovod)

ENVIRONMENT = (pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) /
               "lockstep" / "horovod-tensorflow-0.28.1")
PATIENCE_SECONDS = 600


def cases(examples):
    """Name, words before the program, the program, words after it."""
    yield "a tape, 178 parameters", [], PEERS / "horovod_tensorflow.py", ["1000"]
    yield "Keras, 178 parameters", [], PEERS / "horovod_keras.py", ["100", "1", "12"]
    if examples:
        runner = [str(PEERS / "horovod_example.py")]
        for name in ("tensorflow2_mnist.py", "tensorflow2_keras_mnist.py"):
            yield f"{name}, 1.2 million", runner, examples / "tensorflow2" / name, ["40", "2"]


def output_of(words, **named):
    ran = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
                         check=False, **named)
    if ran.returncode != 0:
        sys.exit(f"{words} ended with {ran.returncode}:\n{ran.stdout}\n{ran.stderr}")
    return ran.stdout


def under_horovodrun(arguments, command):
    words, environment = by_horovodrun(arguments.python, arguments.ranks, command)
    return step_milliseconds(first_rank(output_of(words, env=environment)))


def as_a_job(arguments, command, folder):
    own = without_horovod(arguments.build.resolve() / "bin" / "liblockstep.so.1")
    (folder / "hvd.yaml").write_text(job([*own, *command], arguments.ranks, strategy="None"))
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as name:
        directory = pathlib.Path(name) / "run"
        output_of([arguments.build / "bin" / "lockstep", "run", folder / "hvd.yaml", "--dir",
                   directory])
        return step_milliseconds((directory / "pods" / "hvd-worker-0" / "pod.log").read_text())


def compare(arguments, folder, name, before, program, after):
    interpreter = ["/usr/bin/env", "OMP_NUM_THREADS=1", str(arguments.python), "-B", *before]
    own = changed(program, folder)
    times = {"Horovod": [], "ours": []}
    for _ in range(arguments.rounds):
        times["Horovod"].append(
            under_horovodrun(arguments, [*interpreter, str(program), *after]))
        times["ours"].append(as_a_job(arguments, [*interpreter, str(own), *after], folder))
    theirs, ours = (statistics.median(each) for each in times.values())
    ratios = [one / other for one, other in zip(times["ours"], times["Horovod"])]
    print(f"{name}, {arguments.ranks} ranks: Horovod {theirs:.3f} ms, ours {ours:.3f} ms, "
          f"{ours / theirs:.2f} of it (by round {', '.join(f'{one:.2f}' for one in ratios)}), "
          f"load {os.getloadavg()[0]:.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build" / "release")
    parser.add_argument("--python", type=pathlib.Path, default=ENVIRONMENT / "bin" / "python3")
    parser.add_argument("--examples", type=pathlib.Path,
                        help="the folder `examples` of Horovod's source, for its own ones as well")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {arguments.rounds} rounds")
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        for case in cases(arguments.examples):
            compare(arguments, pathlib.Path(folder), *case)


if __name__ == "__main__":
    main()
