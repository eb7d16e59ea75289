"""tests/gpu/run.sh where no GPU is: what it says of that, of its arguments and of what it lacks;
the table it makes of what its programs say; and its program for NCCL against the doubles of NCCL
and driver, which is as far as it can be executed without a GPU."""

import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
RUN = REPOSITORY / "tests" / "gpu" / "run.sh"
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", REPOSITORY / "build/dev/bin")).resolve()
PROGRAMS = BIN.parent / "gpu"
DOUBLES = BIN / "doubles"

NO_GPU = 69


def run(*command, **variables):
    return subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def with_doubles(mode, release="2.30", **variables):
    path = f"{DOUBLES / 'cuda'}:{DOUBLES / ('nccl-' + release)}"
    return run(PROGRAMS / "lockstep-gpu-nccl", mode, LD_LIBRARY_PATH=path, **variables)


def rows(text):
    return [line.split("\t") for line in text.splitlines()]


def kernels(program):
    """For which GPUs a program has kernels: {(kind, compute capability without its point)}; kind 1
    is code that the driver compiles (PTX), 2 is machine code."""
    data = program.read_bytes()
    begin = data.index(b"\x50\xed\x55\xba")
    _, _, header, size = struct.unpack_from("<IHHQ", data, begin)
    found, at = set(), begin + header
    while at < begin + header + size:
        kind, _, header_of_entry, size_of_entry = struct.unpack_from("<HHIQ", data, at)
        found.add((kind, struct.unpack_from("<I", data, at + 28)[0]))
        at += header_of_entry + size_of_entry
    return found


class KernelsTest(unittest.TestCase):
    def test_kernels_are_there_for_each_generation_and_for_those_to_come(self):
        self.assertEqual(kernels(PROGRAMS / "lockstep-gpu-kernels"),
                         {(1, 90), (2, 80), (2, 90), (2, 100), (2, 120)})


class NoGpuTest(unittest.TestCase):
    def test_it_says_so_and_ends_with_a_code_of_its_own(self):
        if run(PROGRAMS / "lockstep-gpu-kernels").returncode != NO_GPU:
            self.skipTest("there is a GPU here")
        ended = run(RUN, "--programs", PROGRAMS)
        self.assertEqual(ended.returncode, NO_GPU, ended.stderr)
        self.assertIn("no GPU that CUDA 13 can use is visible here: ", ended.stderr)
        table = ended.stdout.splitlines()
        self.assertEqual(table[-1], "no GPU is here: nothing was tried")
        self.assertEqual(len(table), 1 + 3 + 3 * 3 + 6 + 1, ended.stdout)
        for row in table[1:-1]:
            self.assertRegex(row, r" not run .*no GPU")

    def test_programs_that_are_not_there_are_named(self):
        ended = run(RUN, "--programs", "/nowhere")
        self.assertEqual(ended.returncode, 66)
        self.assertIn("no /nowhere/lockstep-gpu-kernels: build", ended.stderr)

    def test_wrong_arguments_are_named(self):
        for arguments in (["--fast"], ["--programs"]):
            ended = run(RUN, *arguments)
            self.assertEqual(ended.returncode, 64)
            self.assertIn(arguments[0], ended.stderr)


# Stands for python3 where PyTorch 9.9.9 with CUDA is: what of the engine runs is a script, too.
PYTHON = """
case $1 in
  -c) case $2 in *"import torch"*) echo 9.9.9; echo "%s/torch" ;; *) exit 1 ;; esac ;;
  *) %s ;;
esac
"""


class TableTest(unittest.TestCase):
    """Of programs that are scripts, each ending as it is told."""

    def table(self, kernels="exit 0", nccl="exit 0", engine="exit 0", torch="9.9.9"):
        """`torch`: of the engine that is carried; empty: there is no PyTorch."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            python = PYTHON % (folder, engine)
            if not torch:
                python = '[ "$1" != -c ] || exit 1\nexec /usr/bin/python3 "$@"'
            for name, text in (("lockstep-gpu-kernels", kernels), ("lockstep-gpu-nccl", nccl),
                               ("path/python3", python)):
                program = folder / name
                program.parent.mkdir(exist_ok=True)
                program.write_text(f"#!/bin/sh\n{text}\n")
                program.chmod(0o755)
            for name in ("torch/lib/libtorch_cuda.so", "nvidia/cu13/lib/libcudart.so.13",
                         "liblockstep-engine-cuda.so"):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).touch()
            (folder / "lockstep-engine-cuda.version").write_text(torch)
            path = f"{folder / 'path'}:{os.environ['PATH']}"
            return run(RUN, "--programs", folder, PATH=path)

    def test_held_bars_end_with_0(self):
        ended = self.table(kernels=r"printf 'Adam\t90 %%\t>= 85 %%\theld\n'",
                           engine=r"printf 'line\t0.1 ms\t>= 2x\theld\n'")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertRegex(ended.stdout, r"Adam +held +>= 85 % +90 %")
        self.assertRegex(ended.stdout, r"line +held +>= 2x +0.1 ms")
        self.assertIn("the engine that was carried, for PyTorch 9.9.9", ended.stdout)
        self.assertIn("every bar is held", ended.stdout)

    def test_an_engine_that_misses_ends_with_1(self):
        ended = self.table(engine=r"printf 'line\t9 ms\t>= 2x\tMISSED\n'; exit 1")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("not every bar is held", ended.stdout)

    def test_without_pytorch_each_row_of_the_engine_says_so(self):
        ended = self.table(torch="")
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stdout.count("no PyTorch: python3 cannot import torch"), 15,
                         ended.stdout)

    def test_an_engine_of_another_release_that_cannot_be_compiled_says_why(self):
        ended = self.table(torch="9.8.0", engine='printf "engine\\t$*\\t\\tnot run\\n"; exit 1')
        self.assertEqual(ended.returncode, 1, ended.stdout)
        self.assertRegex(ended.stdout, "--why no .*liblockstep-gpu-parts.a")
        self.assertNotIn("that was carried", ended.stdout)

    def test_a_missed_bar_ends_with_1(self):
        ended = self.table(kernels=r"printf 'Adam\t80 %%\t>= 85 %%\tMISSED\n'; exit 1")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("not every bar is held", ended.stdout)

    def test_a_program_that_crashes_is_a_row(self):
        ended = self.table(nccl="kill -ABRT $$")
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stdout, r"NCCL, one rank +MISSED .*ended with code 134")

    def test_one_way_for_two_processes_on_a_gpu_is_enough(self):
        one = self.table(nccl='[ "$1" != host-id ] || exit 77')
        none = self.table(nccl='[ "$1" = one ] || exit 77')
        self.assertEqual((one.returncode, none.returncode), (0, 1))


class NcclTest(unittest.TestCase):
    def test_one_rank_sums_through_the_reducer(self):
        ended = with_doubles("one")
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("NCCL 2.30.7 (", rows(ended.stdout)[0][1])

    def test_of_two_one_is_killed_and_the_other_aborts(self):
        ended = with_doubles("host-id", release="2.28")
        table = rows(ended.stdout)
        self.assertEqual([row[3] for row in table][0], "held", ended.stdout)
        self.assertIn("rank 1 is lost", table[1][1])

    def test_an_abort_that_hangs_misses_its_bar(self):
        ended = with_doubles("host-id", release="2.26", FAKE_NCCL_FAULT="stuck-abort@ms=5000")
        self.assertEqual(ended.returncode, 1, ended.stdout)
        self.assertEqual(rows(ended.stdout)[1][3], "MISSED")
        self.assertIn("the abort has not returned", rows(ended.stdout)[1][1])

    def test_ranks_that_cannot_join_are_told_as_refused(self):
        ended = with_doubles("multi-rank-gpu", FAKE_NCCL_FAULT="fail-init")
        self.assertEqual(ended.returncode, 77, ended.stdout)
        self.assertEqual([row[3] for row in rows(ended.stdout)], ["not run", "not run"])

    def test_a_sum_that_fails_misses_its_bar(self):
        ended = with_doubles("one", FAKE_NCCL_FAULT="async-error")
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(rows(ended.stdout)[0][3], "MISSED")


if __name__ == "__main__":
    unittest.main(verbosity=2)
