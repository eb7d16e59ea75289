"""What scripts/release.sh refuses, and the manifests that it makes. dist_test.py makes the rest."""

import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "helm"))

from helm import helm  # noqa: E402 (found through the line above)
from sources import LICENCE, REPOSITORY, VERSION, Sources  # noqa: E402
from tools import require_tools  # noqa: E402


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = pathlib.Path(cls.enterClassContext(
            tempfile.TemporaryDirectory(prefix="lockstep-release-")))
        cls.sources = Sources(cls.scratch / "one")

    def setUp(self):
        self.sources.reset()

    def assert_refused(self, sources, arguments, *words):
        code, said = sources.release(*arguments)
        self.assertEqual(code, 1, said)
        self.assertTrue(said.startswith("error: "), said)
        for word in words:
            self.assertIn(word, said)
        self.assertFalse(sources.dist.exists())


@unittest.skipUnless(LICENCE.exists(), "no common licences here")
class Refusals(Case):
    def test_a_version_that_is_none_or_another(self):
        self.sources.add_licence()
        for version in ("1", "0.1", "v0.1.0", "0.01.0", "0.1.0.0"):
            with self.subTest(version):
                self.assert_refused(self.sources, [version], version, "MAJOR.MINOR.PATCH")
        self.assert_refused(self.sources, [], "VERSION is missing")
        self.assert_refused(self.sources, ["99.0.0"], f"CMakeLists.txt has version {VERSION}")
        python = self.sources.folder / "trainer-runtime" / "python" / "pyproject.toml"
        python.write_text(python.read_text().replace(f'version = "{VERSION}"', 'version = "9.9.9"'))
        self.sources.commit()
        self.assert_refused(self.sources, [VERSION], "pyproject.toml has version 9.9.9")

    def test_a_tree_without_a_licence_names_the_line_that_writes_one(self):
        code, said = self.sources.release(VERSION, "--unsigned")
        self.assertEqual(code, 1)
        line = re.search(r"cp /usr/share/.*", said)[0]
        subprocess.run(["bash", "-c", "git config user.name t && git config user.email t@localhost "
                        f"&& {line}"], cwd=self.sources.folder, check=True, capture_output=True)
        self.assertEqual((self.sources.folder / "LICENSE").read_bytes(), LICENCE.read_bytes())
        self.assert_refused(self.sources, [VERSION], "no key to sign with")

    def test_files_that_are_not_committed_are_named(self):
        self.sources.add_licence()
        (self.sources.folder / "new.txt").write_text("")
        self.assert_refused(self.sources, [VERSION, "--unsigned"], "?? new.txt")

    def test_a_key_that_is_missing_or_none(self):
        self.sources.add_licence()
        self.assert_refused(self.sources, [VERSION], "--key FILE", "--unsigned", "genpkey")
        self.assert_refused(self.sources, [VERSION, "--key", "LICENSE"], "not a private key")

    def test_a_word_that_is_unknown(self):
        self.assert_refused(self.sources, [VERSION, "--fast"], "unknown option --fast")
        self.sources.add_licence()
        self.assert_refused(self.sources, [VERSION, "--unsigned", "--images", "runtime,ps"],
                            "runtime-cuda")


@unittest.skipUnless(LICENCE.exists(), "no common licences here")
class Manifests(Case):
    def make(self, sources, *arguments):
        require_tools("helm")
        code, said = sources.add_licence().release(VERSION, "--manifests-only", *arguments)
        self.assertEqual(code, 0, said)
        return sources.dist

    def test_definitions_come_first_and_images_are_the_releases(self):
        dist = self.make(self.sources, "--registry", "registry.example/team/")
        text = (dist / "install.yaml").read_text()
        kinds = re.findall(r"^kind: (\w+)$", text, re.MULTILINE)
        self.assertEqual(kinds[:3], ["CustomResourceDefinition"] * 2 + ["Namespace"])
        self.assertEqual(kinds.count("CustomResourceDefinition"), 2)
        self.assertEqual(kinds.count("Deployment"), 1)
        images = re.findall(r"[\w./-]+/lockstep-\w+:[\w.]+", text)
        self.assertEqual(sorted(images), [f"registry.example/team/lockstep-operator:{VERSION}",
                                          f"registry.example/team/lockstep-runtime:{VERSION}"])

    def test_the_head_of_install_yaml_uninstalls_the_operator_and_keeps_jobs_and_key(self):
        text = (self.make(self.sources) / "install.yaml").read_text()
        head = re.match(r"(?:#.*\n)+", text)[0]
        page = (REPOSITORY / "docs" / "reference" / "install.md").read_text()
        for place in (head, page):
            self.assertIn("kubectl delete -f install.yaml", place)
            command = re.search(r"kubectl delete --namespace lockstep-system --selector "
                                r"app.kubernetes.io/instance=lockstep \\\n[# ]+(\S+)\n", place)
            deleted = {kind.removesuffix("s") for kind in command[1].split(",")}
            self.assertEqual(deleted & {"customresourcedefinition", "namespace", "secret"}, set())
            for item in re.split(r"^---$", text, flags=re.MULTILINE):
                kind = re.findall(r"^kind: (\w+)$", item, re.MULTILINE)
                if kind and kind[0] not in ("CustomResourceDefinition", "Namespace"):
                    self.assertIn(kind[0].lower(), deleted)
                    self.assertIn('\n    app.kubernetes.io/instance: "lockstep"\n', item)

    def test_helm_makes_the_same_objects_of_the_chart(self):
        dist = self.make(self.sources)
        code, rendered, errors = helm(
            self.scratch / "helm", "template", "lockstep", dist / f"lockstep-{VERSION}.tgz",
            "--namespace", "lockstep-system")
        self.assertEqual(code, 0, errors)
        installed = (dist / "install.yaml").read_text()

        def sources_of(text):
            return sorted(re.findall(r"^# Source: (\S+)$", text, re.MULTILINE))

        self.assertEqual(sources_of(installed), sources_of(rendered))
        for part in rendered.split("---\n"):
            self.assertIn(part.strip(), installed)

    def test_the_chart_that_pages_upgrade_to_names_the_releases_registry(self):
        dist = self.make(self.sources, "--registry", "registry.example/team")
        upgrade = (REPOSITORY / "docs" / "how-to" / "upgrade.md").read_text()
        (chart,) = re.findall(r"^helm upgrade lockstep (\S+)", upgrade, re.MULTILINE)
        code, rendered, errors = helm(self.scratch / "helm", "template", "lockstep",
                                      dist / chart.replace("VERSION", VERSION))
        self.assertEqual(code, 0, errors)
        images = re.findall(r"image[:=] ?(\S+)$", rendered, re.MULTILINE)
        self.assertEqual([image.rpartition("/")[0] for image in images],
                         ["registry.example/team"] * 2, images)
        for page in (REPOSITORY / "docs").rglob("*.md"):
            for line in re.findall(r"^helm upgrade .*", page.read_text(), re.MULTILINE):
                self.assertRegex(line, rf"^helm upgrade lockstep (CHART|{chart}) ", page)

    def test_two_clones_make_the_same_files(self):
        one = self.make(self.sources)
        other = self.make(Sources(self.scratch / "another-name"))
        names = sorted(path.name for path in one.iterdir())
        self.assertEqual(names, sorted(path.name for path in other.iterdir()))
        self.assertIn(f"lockstep-{VERSION}.tgz", names)
        with tarfile.open(one / f"lockstep-{VERSION}-docs.tar.gz") as pages:
            self.assertIn("docs/alerts.md", pages.getnames())
        for name in names:
            self.assertEqual((one / name).read_bytes(), (other / name).read_bytes(), name)
        sums = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=one, capture_output=True)
        self.assertEqual(sums.returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
