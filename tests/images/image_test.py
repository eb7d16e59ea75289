"""The images, built from docker/ and run as Kubernetes' level "restricted" has them run."""

import json
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

from image import BIN, REPOSITORY, USER_ID, build, require_builder

# What nobody needs in there, and an intruder would like.
UNWANTED = {"sh", "bash", "busybox", "perl", "python3", "apt-get", "dpkg", "mount", "su"}


class ImageTest:
    """What holds for every image."""

    name = None
    bytes_max = None

    @classmethod
    def setUpClass(cls):
        require_builder()
        cls.image = build(cls.name)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-image-"))
        folder.chmod(0o755)
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.root = cls.image.unpack(folder)

    def test_is_named_after_the_version(self):
        version = re.search(
            r"project\(lockstep VERSION ([\d.]+)", (REPOSITORY / "CMakeLists.txt").read_text()
        )[1]
        self.assertEqual(self.image.tags, [f"localhost/lockstep-{self.name}:{version}"])

    def test_runs_as_a_numbered_user_that_is_not_root(self):
        # A name would not do: the kubelet cannot tell whether it is root.
        self.assertEqual(self.image.config["User"], f"{USER_ID}:{USER_ID}")

    def test_holds_only_what_is_needed(self):
        members = list(self.image.members())
        self.assertLess(sum(member.size for member in members), self.bytes_max)
        programs = {pathlib.PurePath(each.name).name for each in members if each.isfile()}
        self.assertEqual(programs & UNWANTED, set())

    def test_nobody_but_root_can_change_it_and_nothing_makes_one_root(self):
        for member in self.image.members():
            if member.issym() or member.name.strip("./") == "tmp":
                continue
            with self.subTest(member.name):
                self.assertEqual((member.uid, member.gid), (0, 0))
                self.assertEqual(member.mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH), 0)
                self.assertTrue(member.mode & stat.S_IROTH)

    def test_says_of_which_packages_it_is_made(self):
        names = {member.name.lstrip("./") for member in self.image.members()}
        packages = [name for name in names if name.startswith("var/lib/dpkg/status.d/")]
        self.assertIn("var/lib/dpkg/status.d/libc6", packages)
        for package in packages:
            self.assertIn(f"usr/share/doc/{pathlib.PurePath(package).name}/copyright", names)

    def test_starts(self):
        ran = self.root.run("--version")
        self.assertRegex(ran.stdout, rf"^lockstep-{self.name} \d+\.\d+\.\d+\n$", ran.stderr)


class OperatorImageTest(ImageTest, unittest.TestCase):
    name = "operator"
    bytes_max = 28e6  # two thirds are OpenSSL, the C and the C++ library

    def test_outside_a_cluster_it_ends_and_says_what_it_looked_for(self):
        ran = self.root.run()
        self.assertEqual(ran.returncode, 1, ran.stderr)
        self.assertIn("kubeconfig", ran.stdout + ran.stderr)


class RuntimeImageTest(ImageTest, unittest.TestCase):
    name = "runtime"
    bytes_max = 260e6  # LibTorch is 115 MB of it, OpenBLAS and oneDNN 80

    def test_trains_the_example_with_the_data_of_the_image(self):
        manifest = (REPOSITORY / "examples" / "mnist.yaml").read_text()
        for whole, part in (("replicas: 3", "replicas: 1"), ("epochs: 8", "epochs: 1")):
            self.assertEqual(manifest.count(whole), 1)
            manifest = manifest.replace(whole, part)
        with tempfile.NamedTemporaryFile("w", prefix="lockstep-image-", suffix=".yaml") as file:
            file.write(manifest)
            file.flush()
            rendered = subprocess.run([BIN / "lockstep", "render", file.name, "--output", "json"],
                                      capture_output=True, text=True, check=True).stdout
        ran = self.root.run("train", environment=json.loads(rendered)["pods"][0]["env"])
        self.assertEqual(ran.returncode, 0, ran.stderr)
        accuracy = float(re.search(r"test_accuracy=([\d.]+)", ran.stderr)[1])
        self.assertGreater(accuracy, 0.85)  # one pass over 9,000 digits gives 0.90

    def test_an_install_where_nothing_may_be_written_says_so(self):
        ran = self.root.run("install", "/usr/bin")
        self.assertEqual(ran.returncode, 64)
        self.assertIn("Read-only file system", ran.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
