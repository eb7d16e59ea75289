"""The scripts that lay images out, on small stand-ins for what they are for."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TORCH_LIBRARIES = REPOSITORY / "docker" / "torch_libraries.sh"
ROOTFS = REPOSITORY / "docker" / "rootfs.sh"

WHEELS = (
    "torch/lib/libtorch_cpu.so", "torch/lib/libtorch_cuda.so", "torch/lib/libc10_cuda.so",
    "torch/lib/libgomp-abc.so.1", "torch/lib/libtorch_python.so", "torch/__init__.py",
    "torch/include/ATen/ATen.h", "nvidia/cu13/lib/libcudart.so.13",
    "nvidia/cu13/include/cuda_runtime_api.h", "nvidia/nccl/lib/libnccl.so.2",
    "torch-9.9.9.dist-info/licenses/LICENSE", "nvidia_nccl_cu13-2.30.dist-info/License.txt",
    "torch-9.9.9.dist-info/METADATA",
)
LAID_OUT = {
    "libnccl.so.2", "torch/lib/libtorch_cpu.so", "torch/lib/libtorch_cuda.so",
    "torch/lib/libc10_cuda.so", "torch/lib/libgomp-abc.so.1", "nvidia/cu13/lib/libcudart.so.13",
    "nvidia/nccl/lib/libnccl.so.2", "torch-9.9.9.dist-info/licenses/LICENSE",
    "nvidia_nccl_cu13-2.30.dist-info/License.txt",
}


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, timeout=120)


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-test-")
        self.addCleanup(folder.cleanup)
        self.scratch = pathlib.Path(folder.name)


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


class TorchLibrariesTest(Scratch):
    def lay_out(self, wheels):
        for name in wheels:
            file = self.scratch / "wheels" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(name)
        return run(TORCH_LIBRARIES, self.scratch / "wheels", self.scratch / "out")

    def test_takes_libraries_and_licences_and_says_where_nccl_is(self):
        ended = self.lay_out(WHEELS)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        out = self.scratch / "out"
        self.assertEqual(files_below(out), LAID_OUT)
        self.assertEqual((out / "libnccl.so.2").read_text(), "nvidia/nccl/lib/libnccl.so.2")

    def test_wheels_that_lack_a_half_are_refused(self):
        for missing in ("torch/lib/libtorch_cuda.so", "nvidia/nccl/lib/libnccl.so.2"):
            with self.subTest(missing):
                shutil.rmtree(self.scratch / "wheels", ignore_errors=True)
                ended = self.lay_out([name for name in WHEELS if name != missing])
                self.assertEqual(ended.returncode, 1)
                self.assertIn(pathlib.Path(missing).name, ended.stderr)
                self.assertFalse((self.scratch / "out").exists())


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("dpkg-query") and shutil.which("gcc"),
                     "lays out a root folder: as root, on Debian, with gcc")
class RootfsTest(Scratch):
    """A program with a folder of libraries beside: one that it is linked with, and one that is
    loaded while it runs, which itself loads one of Debian's."""

    def setUp(self):
        super().setUp()
        (self.scratch / "beside").mkdir()
        (self.scratch / "linked.c").write_text('const char* words(void) { return "here"; }\n')
        (self.scratch / "loaded.c").write_text(
            "#include <zlib.h>\nconst char* words_of_zlib(void) { return zlibVersion(); }\n")
        (self.scratch / "program.c").write_text(
            "#include <stdio.h>\nconst char* words(void);\n"
            "int main(void) { return puts(words()) < 0; }\n")
        for name, libraries in (("linked", []), ("loaded", ["-lz"])):
            file = f"lib{name}.so"
            self.compile("-shared", "-fPIC", f"-Wl,-soname,{file}", self.scratch / f"{name}.c",
                         *libraries, "-o", self.scratch / "beside" / file)
        self.compile(self.scratch / "program.c", self.scratch / "beside" / "liblinked.so",
                     "-Wl,--disable-new-dtags,-rpath,$ORIGIN/beside", "-o",
                     self.scratch / "program")

    def compile(self, *arguments):
        ended = run("gcc", *arguments)
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_a_folder_beside_brings_what_it_loads_and_is_left_to_its_layer(self):
        root = self.scratch / "root"
        ended = run(ROOTFS, root, "--beside", f"{self.scratch / 'beside'}=/usr/lib/own/beside",
                    f"{self.scratch / 'program'}=/usr/lib/own/program")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        files = files_below(root)
        self.assertIn("usr/lib/own/program", files)
        self.assertFalse((root / "usr/lib/own/beside").exists())
        self.assertTrue(any("/libz.so.1" in file for file in files), files)
        self.assertTrue((root / "var/lib/dpkg/status.d/zlib1g").exists())
        shutil.copytree(self.scratch / "beside", root / "usr/lib/own/beside")
        loader = next((root / "usr/lib64").glob("ld-linux-*")).name
        ended = run("chroot", root, f"/lib64/{loader}", "/usr/lib/own/program")  # needs no /proc
        self.assertEqual(ended.stdout, "here\n", ended.stderr)

    def test_without_it_the_program_lacks_a_library(self):
        ended = run(ROOTFS, self.scratch / "root",
                    f"{self.scratch / 'program'}=/usr/lib/own/program")
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("liblinked.so", ended.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
