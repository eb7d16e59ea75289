"""The documentation's site: what it is built from, and that a dead link fails the build."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BUILD_SECONDS_MAX = 300


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def generator():
    """The folder of the generator that scripts/docs.sh pins; it may not be installed."""
    cache = os.environ.get("LOCKSTEP_CACHE_DIR") or pathlib.Path(
        os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "lockstep")
    pin = re.search(r"^readonly ZENSICAL=(\S+)==(\S+)$",
                    (REPOSITORY / "scripts" / "docs.sh").read_text(), re.MULTILINE)
    return pathlib.Path(cache, f"docs-{pin[1]}-{pin[2]}")


class Source(unittest.TestCase):
    def setUp(self):
        self.script = load_script("docs_source")

    def page(self, text, name="how-to/a.md"):
        return self.script.page_for_site(REPOSITORY / "docs" / name, text)

    def test_links_within_the_site_stay(self):
        text = "[a](b.md#c) ![d](../demo.svg) [e](#f) [g](https://example.com/h)"
        self.assertEqual(self.page(text), text)

    def test_links_out_of_the_site_become_text(self):
        self.assertEqual(self.page("see [the rules](../../SECURITY.md#x)"),
                         "see the rules (`SECURITY.md`)")
        self.assertEqual(self.page("[SECURITY.md](../../SECURITY.md)"), "`SECURITY.md`")

    def test_code_stays_but_for_a_name_behind_its_language(self):
        self.assertEqual(self.page("```python keras\n[a](../../b.md)\n```"),
                         "```python\n[a](../../b.md)\n```")


@unittest.skipUnless(generator().is_dir(), "needs: the generator that scripts/docs.sh installs")
class Site(unittest.TestCase):
    """In a copy, so that nothing is written into the clone, and without a network."""

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-site-"))
        self.addCleanup(shutil.rmtree, self.root)
        for name in ("docs", "scripts", "crds"):
            shutil.copytree(REPOSITORY / name, self.root / name)
        shutil.copy(REPOSITORY / "mkdocs.yml", self.root)

    def build(self):
        offline = ["unshare", "--net"] if os.geteuid() == 0 else []
        return subprocess.run([*offline, self.root / "scripts" / "docs.sh"], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=BUILD_SECONDS_MAX)

    def test_site_has_every_page(self):
        built = self.build()
        self.assertEqual(built.returncode, 0, built.stdout)
        docs = self.root / "docs"
        pages = [page.relative_to(docs) for page in docs.rglob("*.md")]
        self.assertGreater(len(pages), 30)
        for page in pages:
            self.assertTrue((self.root / "build/docs" / page).with_suffix(".html").exists(), page)
        fields = (self.root / "build/docs/reference/fields.html").read_text()
        self.assertIn("spec.roles[].replicas", fields)
        self.assertNotIn("fields: crds", fields)

    def test_dead_link_fails_the_build(self):
        with open(self.root / "docs" / "index.md", "a", encoding="utf-8") as page:
            page.write("\n[nowhere](nowhere.md)\n")
        built = self.build()
        self.assertNotEqual(built.returncode, 0, built.stdout)
        self.assertIn("page does not exist", built.stdout)
        self.assertIn("index.md:", built.stdout)


if __name__ == "__main__":
    unittest.main()
