"""dist/publish.sh with stubs for the programs that reach a network: it refuses before it publishes
anything, publishes what was signed and no more, and can be run again."""

import hashlib
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from sources import REPOSITORY, VERSION

REGISTRY = "registry.example/team"
URL = f"https://downloads.example/lockstep/{VERSION}"
SYSTEM = "/usr/bin:/bin"
PROGRAMS = ("skopeo", "helm", "twine", "rsync")
CHART = f"lockstep-{VERSION}.tgz"
IMAGE = f"images/lockstep-operator-{VERSION}.tar"
IMAGE_TAG = f"docker://{REGISTRY}/lockstep-operator:{VERSION}"
CHART_TAG = f"docker://{REGISTRY}/charts/lockstep:{VERSION}"
EVERYTHING = ("skopeo copy", "helm push", "rsync", "twine upload")
# Logs the command. `skopeo inspect` prints the file with the reference's name, if there is one.
STUB = """#!/bin/bash
if [[ "$(basename "$0") $1" == "skopeo inspect" ]]; then
  cat "$STUBS/published/${3//\\//_}" 2>/dev/null && exit
  echo "reading manifest: ${ABSENT:-manifest unknown}" >&2
  exit 1
fi
echo "$(basename "$0") $*" >>"$STUBS/log"
[[ $(basename "$0") != "$BROKEN" ]]
"""


class PublishTest(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory(prefix="lockstep-publish-")))
        (self.scratch / "published").mkdir()
        self.programs = self.scratch / "programs"
        self.programs.mkdir()
        for name in PROGRAMS:
            (self.programs / name).write_text(STUB)
            (self.programs / name).chmod(0o755)
        self.answer(f"oci-archive:{IMAGE}", "manifest of the operator")
        self.dist = self.make()

    def answer(self, reference, text):
        """What `skopeo inspect` prints of it."""
        (self.scratch / "published" / reference.replace("/", "_")).write_text(text)

    def make(self, registry=REGISTRY, url=URL):
        """A signed folder as scripts/release.sh leaves it, with words in place of its files."""
        dist = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        (dist / "images").mkdir()
        for name in (CHART, IMAGE, "install.yaml", f"lockstep_training-{VERSION}-any.whl"):
            (dist / name).write_text(name)
        script = (REPOSITORY / "scripts" / "release" / "publish.sh.in").read_text()
        for word, value in (("REGISTRY", registry), ("URL", url), ("VERSION", VERSION)):
            script = script.replace(f"@{word}@", value)
        (dist / "publish.sh").write_text(script)
        (dist / "publish.sh").chmod(0o755)
        subprocess.run("sha256sum $(find . -type f -printf '%P ') >../sums && mv ../sums SHA256SUMS"
                       " && openssl genpkey -algorithm ed25519 -out ../key 2>/dev/null"
                       " && openssl pkey -in ../key -pubout -out lockstep.pub && openssl pkeyutl"
                       " -sign -rawin -inkey ../key -in SHA256SUMS -out SHA256SUMS.sig",
                       shell=True, cwd=dist, check=True)
        return dist

    def publish(self, *arguments, **environment):
        """(exit code, what it says, the commands that it ran)."""
        log = self.scratch / "log"
        log.write_text("")
        ran = subprocess.run(
            [self.dist / "publish.sh", *arguments], stdout=subprocess.PIPE, text=True, timeout=60,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env={"PATH": f"{self.programs}:{SYSTEM}", "STUBS": str(self.scratch),
                 **environment})
        return ran.returncode, ran.stdout, log.read_text().splitlines()

    def assert_refused(self, word, *arguments, **environment):
        code, said, commands = self.publish(*arguments, **environment)
        self.assertEqual((code, commands), (1, []), said)
        self.assertIn(word, said)

    def assert_runs(self, commands, beginnings):
        self.assertEqual(len(commands), len(beginnings), commands)
        for command, beginning in zip(commands, beginnings):
            self.assertTrue(command.startswith(beginning), commands)

    def test_publishes_wheels_last_whatever_the_order_of_the_names(self):
        code, said, commands = self.publish("wheels", "files", "images", "chart", "--files", "h:/w")
        self.assertEqual(code, 0, said)
        self.assert_runs(commands, EVERYTHING)
        self.assertIn(f"{IMAGE} {IMAGE_TAG}", commands[0])
        self.assertTrue(commands[2].endswith(f" ./ h:/w/{VERSION}/"), commands)

    def test_a_dry_run_prints_the_commands_and_runs_none(self):
        code, said, commands = self.publish("--dry-run", "--files", "h:/w")
        self.assertEqual((code, commands), (0, []), said)
        self.assert_runs([line.removeprefix("+ ") for line in said.splitlines()], EVERYTHING)

    def test_without_a_destination_nothing_is_published(self):
        self.assert_refused("--files DESTINATION")

    def test_without_an_address_nothing_is_published(self):
        self.dist = self.make(url=f"https://lockstep.invalid/{VERSION}")
        self.assert_refused("--url URL", "--files", "h:/w")

    def test_files_that_name_images_on_localhost_are_not_published(self):
        self.dist = self.make(registry="localhost")
        for kind in ("images", "chart", "files"):
            self.assert_refused("--registry NAME", kind, "--files", "h:/w")
        self.assertEqual(self.publish("wheels")[0], 0)

    def test_a_missing_program_is_named_before_anything_is_published(self):
        for name in PROGRAMS:
            if shutil.which(name, path=SYSTEM):
                continue
            (self.programs / name).rename(self.scratch / name)
            self.assert_refused(f"{name} is missing", "--files", "h:/w")
            (self.scratch / name).rename(self.programs / name)

    def test_a_file_that_was_not_signed_is_not_published(self):
        for name in ("b.whl", f"images/lockstep-evil-{VERSION}.tar", "docs"):
            (self.dist / name).write_text("")
            self.assert_refused(name, "--files", "h:/w")
            (self.dist / name).unlink()
        (self.dist / "install.yaml").write_text("changed")
        self.assert_refused("differs from the released one", "--files", "h:/w")

    def test_a_published_version_is_not_overwritten(self):
        for reference in (IMAGE_TAG, CHART_TAG):
            self.answer(reference, "another manifest")
            self.assert_refused("published already, with other content", "--files", "h:/w")
            (self.scratch / "published" / reference.replace("/", "_")).unlink()

    def test_a_registry_that_does_not_answer_is_not_an_empty_one(self):
        self.assert_refused("cannot find out whether", "images", ABSENT="connection refused")

    def test_after_a_failure_it_can_be_run_again(self):
        code, said, commands = self.publish("--files", "h:/w", BROKEN="twine")
        self.assertEqual(code, 1, said)
        self.assert_runs(commands, EVERYTHING)
        self.answer(IMAGE_TAG, "manifest of the operator")
        digest = hashlib.sha256((self.dist / CHART).read_bytes()).hexdigest()
        self.answer(CHART_TAG, f'{{"layers": [{{"digest": "sha256:{digest}"}}]}}')
        code, said, commands = self.publish("--files", "h:/w")
        self.assertEqual(code, 0, said)
        self.assert_runs(commands, EVERYTHING[2:])
        self.assertIn(" --skip-existing ", commands[-1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
