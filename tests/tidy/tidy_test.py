"""Each rule fires on a planted violation, names file and line, and leaves good code alone."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import document_rules
import include_rules
import text_rules
import tidy
import tree_rules
from source_file import SourceFile


def cpp(text, path="operator/local/a.cc"):
    return SourceFile(path, text.encode("utf-8"))


def lines_of(rule, file):
    return [finding.line for finding in rule(file)]


class IncludeEdges(unittest.TestCase):
    def problems(self, path, *includes):
        text = "".join(f"#include {include}\n" for include in includes)
        return [str(one) for one in include_rules.check_include_edges(cpp(text, path))]

    def assert_refused(self, path, include):
        found = self.problems(path, "<vector>", include)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{path}:2: "), found)

    def assert_allowed(self, path, *includes):
        self.assertEqual(self.problems(path, *includes), [])

    def test_forbidden_edges(self):
        for path, include in (
            ("common/base/a.h", '"common/json/json.h"'),
            ("common/json/a.cc", '"common/contract/environment/role.h"'),
            ("operator/scheduler/a.cc", '"common/json/json.h"'),
            ("operator/scheduler/a.cc", '"operator/kubeclient/kube/objects.h"'),
            ("operator/kubeclient/kube/a.cc", '"operator/api/job.h"'),
            ("operator/kubeclient/kube/deeper/a.h", '"operator/kubeclient/transport/b.h"'),
            ("operator/kubeclient/a.cc", '"common/base/result.h"'),
            ("operator/reconcile/a.cc", '"operator/kubeclient/transport/http.h"'),
            ("operator/local/a.cc", '"operator/reconcile/decide.h"'),
            ("operator/reconcile/a.cc", '"operator/reconcile/gang/gang_view.h"'),
            ("operator/reconcile/failure/a.cc", '"operator/reconcile/recovery/replace.h"'),
            ("operator/view/a.cc", '"operator/reconcile/recovery/replace.h"'),
            ("operator/capacity/sight/a.h", '"operator/reconcile/observed.h"'),
            ("trainer-runtime/collectives/a.cc", '"trainer-runtime/rendezvous/mesh.h"'),
            ("trainer-runtime/collectives/a.cc", '"common/json/json.h"'),
            ("trainer-runtime/data/a.cc", '"trainer-runtime/checkpoint/snapshot.h"'),
            ("trainer-runtime/strategy/a.cc", '"trainer-runtime/engine/torch_engine.h"'),
            ("operator/cli/a.cc", '"trainer-runtime/train/train.h"'),
            ("trainer-runtime/cmd/a.cc", '"operator/api/job.h"'),
            ("operator/api/job/a.cc", '"operator/api/rules/rules.h"'),
            ("operator/api/fields/deeper/a.h", '"operator/api/decode_job.h"'),
            ("common/base/a.cc", '"common/base/io/file.h"'),
            ("operator/novelty/a.cc", '"common/base/result.h"'),
            ("operator/api/a.cc", '"tests/sim/world.h"'),
            ("operator/api/a.cc", '"sibling.h"'),
        ):
            with self.subTest(path=path, include=include):
                self.assert_refused(path, include)

    def test_rooms_have_no_circle(self):
        def below(room, above):
            self.assertNotIn(room, above, f"circle: {' -> '.join([*above, room])}")
            for one in include_rules.EDGES.get(room, ()):
                below(one, [*above, room])

        for room in include_rules.EDGES:
            below(room, [])

    def test_rooms_within_rooms_have_no_circle(self):
        def below(rooms, room, above):
            self.assertNotIn(room, above, f"circle: {' -> '.join([*above, room])}")
            for one in rooms[room]:
                below(rooms, one, [*above, room])

        for rooms in include_rules.WITHIN.values():
            for room in rooms:
                below(rooms, room, [])

    def test_allowed_edges(self):
        self.assert_allowed("operator/reconcile/a.cc", '"operator/scheduler/plan/plan.h"', "<map>")
        for name in ("start/a.cc", "turn.cc", "recovery/deeper/a.h", "failure/a_test.cc"):
            self.assert_allowed("operator/reconcile/" + name, '"operator/reconcile/recovery/a.h"')
        self.assert_allowed("operator/cli/a.cc", '"operator/controller/c.h"', "<CLI/CLI.hpp>")
        self.assert_allowed("operator/api/status/a.cc", '"operator/api/job/b.h"')
        self.assert_allowed("operator/api/job/a.cc", '"operator/api/job/deeper/b.h"')
        self.assert_allowed("operator/api/job/a_test.cc", '"operator/api/decode_job.h"')
        self.assert_allowed("trainer-runtime/strategy/a.cc", '"trainer-runtime/engine/engine.h"')
        self.assert_allowed("tests/sim/a.cc", '"operator/api/a.h"', '"trainer-runtime/x/b.h"')
        self.assert_allowed("operator/local/a.cc", "<sys/wait.h>", "<unistd.h>")
        for name in ("a_test.cc", "a_test_support.h", "test_a.cc", "testing_a.cc", "test_a/b.cc"):
            self.assert_allowed(
                "operator/api/" + name, "<gtest/gtest.h>", '"operator/local/pod_runner.h"'
            )
            self.assert_refused("operator/api/" + name, '"trainer-runtime/data/cursor.h"')

    def test_libraries_stay_in_their_wrapper(self):
        for path, include in (
            ("trainer-runtime/train/a.cc", "<torch/torch.h>"),
            ("operator/api/a.cc", "<nlohmann/json.hpp>"),
            ("trainer-runtime/collectives/a.cc", "<boost/asio.hpp>"),
            ("common/base/io/file.cc", "<spdlog/spdlog.h>"),
            ("operator/local/a.cc", "<CLI/CLI.hpp>"),
            ("operator/cli/a.cc", "<yaml-cpp/yaml.h>"),
            ("trainer-runtime/train/a.cc", "<prometheus/counter.h>"),
            ("trainer-runtime/data/a.cc", "<openssl/evp.h>"),
            ("operator/local/a.cc", "<zlib.h>"),
            ("operator/local/a.cc", "<gtest/gtest.h>"),
            ("operator/local/a.cc", "<novel/library.h>"),
        ):
            with self.subTest(path=path, include=include):
                self.assert_refused(path, include)


class PureFolders(unittest.TestCase):
    def test_banned_names(self):
        for path in (
            "operator/scheduler/a.cc",
            "operator/capacity/a.cc",
            "operator/reconcile/failure/a.cc",
            "operator/api/a.cc",
            "operator/kubeclient/kube/a.h",
            "common/contract/a.cc",
            "trainer-runtime/rendezvous/membership.cc",
            "trainer-runtime/strategy/bucket_plan.cc",
            "trainer-runtime/data/shard_plan.h",
        ):
            for bad in (
                "#include <thread>",
                "#include <mutex>",
                "#include <fstream>",
                'auto home = std::getenv("HOME");',
                "auto now = std::chrono::steady_clock::now();",
                "auto now = SteadyNow();",
            ):
                with self.subTest(path=path, bad=bad):
                    file = cpp("int a;\n" + bad + "\n", path)
                    self.assertEqual(lines_of(text_rules.check_pure_folders, file), [2])

    def test_words_in_comments_and_shells_are_fine(self):
        text = "// std::thread is not for here, nor getenv\n#include <vector>\n"
        self.assertEqual(
            lines_of(text_rules.check_pure_folders, cpp(text, "operator/api/a.cc")), []
        )
        self.assertEqual(lines_of(text_rules.check_pure_folders, cpp("#include <mutex>\n")), [])


class Limits(unittest.TestCase):
    def test_columns(self):
        file = cpp("a\n" + "b" * 100 + "\n" + "c" * 101 + "\n")
        self.assertEqual(lines_of(text_rules.check_limits, file), [3])

    def test_columns_are_characters(self):
        self.assertEqual(lines_of(text_rules.check_limits, cpp("// " + "\u00b5" * 97)), [])

    def test_file_lines(self):
        self.assertEqual(lines_of(text_rules.check_limits, cpp("a\n" * 500)), [])
        self.assertEqual(lines_of(text_rules.check_limits, cpp("a\n" * 501)), [501])

    def test_long_files_may_only_shrink(self):
        for path, limit in text_rules.FILE_LINES_RATCHET.items():
            for count, findings in ((limit + 1, 1), (limit, 0), (limit - 1, 1)):
                found = lines_of(text_rules.check_limits, cpp("a\n" * count, path))
                self.assertEqual(len(found), findings, (path, count))

    def body(self, count, head="int F(int a)"):
        return head + " {\n" + "  a;\n" * count + "}\n"

    def test_function_lines(self):
        for head in (
            "int F(int a)",
            "TEST(Suite, Name)",
            "Result<std::map<K, V>> C::F(\n    int a = 1,\n    int b) const",
            "C::C(int a)\n    : a_(a), b_{1}",
            "bool C::operator==(const C& o) const",
            "template <typename T>\n\nrequires std::integral<T> T F(T a)",
        ):
            with self.subTest(head=head):
                good, bad = cpp(self.body(70, head)), cpp("int x;\n" + self.body(71, head))
                self.assertEqual(lines_of(text_rules.check_function_length, good), [])
                self.assertEqual(len(lines_of(text_rules.check_function_length, bad)), 1)

    def test_rows_of_a_table_do_not_count(self):
        rows = "  const T rows = {\n" + "    {1},\n" * 100 + "  };\n"
        check = text_rules.check_function_length
        self.assertEqual(lines_of(check, cpp("int F() {\n" + rows + "  a;\n" * 60 + "}\n")), [])
        self.assertEqual(lines_of(check, cpp("int F() {\n" + rows + "  a;\n" * 71 + "}\n")), [1])

    def test_methods_inside_classes_count_too(self):
        inner = self.body(71, "int F()")
        file = cpp("namespace n {\nclass C final : public B<int> {\n" + inner + "};\n}\n")
        self.assertEqual(lines_of(text_rules.check_function_length, file), [3])

    def test_data_and_types_are_no_functions(self):
        rows = "  {1, F(2)},\n" * 100
        for head in ("const T kTable =", "struct S", "namespace n", "enum class E", "T table"):
            with self.subTest(head=head):
                file = cpp(head + " {\n" + rows + "};\n")
                self.assertEqual(lines_of(text_rules.check_function_length, file), [])

    def test_braces_in_literals_do_not_count(self):
        trick = 'int F() {\n  Use("}", \'}\', R"({{{)", 1\'000);  // }\n' + "  a;\n" * 70 + "}\n"
        self.assertEqual(lines_of(text_rules.check_function_length, cpp(trick)), [1])

    def test_python_functions(self):
        file = SourceFile("tests/a.py", ("def f():\n" + "    pass\n" * 70).encode())
        self.assertEqual(lines_of(text_rules.check_function_length, file), [1])


class Words(unittest.TestCase):
    def assert_lines(self, rule, text, expected, path="operator/local/a.cc"):
        self.assertEqual(lines_of(rule, cpp(text, path)), expected)

    def test_todo_needs_an_issue(self):
        todo = "TO" + "DO"
        self.assert_lines(text_rules.check_todos, f"// {todo}: later\n// {todo}(me): x\n", [1, 2])
        self.assert_lines(text_rules.check_todos, f"// {todo}(#12): x\n// {todo} #3: y\n", [])

    def test_test_names_have_no_underscores(self):
        text = "TEST(Good, Good) {}\nTEST_F(My_Suite, Name) {}\nTEST_P(\n    Suite,\n  Na_me) {}\n"
        self.assert_lines(text_rules.check_test_names, text, [2, 3])

    def test_banned_everywhere(self):
        text = (
            "#include <source_location>\n// std::source_location\nauto v = a | std::views::all;\n"
            "co_await x;\n"
        )
        self.assert_lines(text_rules.check_banned_names, text, [1, 3, 4])

    def test_home_paths(self):
        home, root, users = "/ho" + "me/", "/ro" + "ot/", "/Us" + "ers/"
        text = f"a {home}me\nb {root}x\nc {users}me\nd $(HOME)/x https://a.b/home/x /homes\n"
        self.assert_lines(text_rules.check_home_paths, text, [1, 2, 3], "docs/a.md")

    def test_headers_have_a_guard(self):
        self.assert_lines(text_rules.check_pragma_once, "int a;\n", [1], "operator/local/a.h")
        self.assert_lines(text_rules.check_pragma_once, "#pragma once\n", [], "operator/local/a.h")

    def test_documents_have_one_title(self):
        check = text_rules.check_one_title
        self.assert_lines(check, "# A\n```\n# comment\n```\n## B\n", [], "docs/a.md")
        self.assert_lines(check, "# A\n\n# B\n", [3], "docs/a.md")
        self.assert_lines(check, "text\n", [1], "docs/a.md")

    def test_documents_are_wrapped_where_they_can_be(self):
        check = text_rules.check_document_width
        long = "word " * 30
        code = f"`{long}`"
        self.assert_lines(check, f"# A\n{long}\n- {long}\n", [2, 3], "docs/decisions/a.md")
        self.assert_lines(check, f"# A\n{long}\n", [2], "README.md")
        self.assert_lines(check, f"| {long}|\n```\n{long}\n```\n  {code}.\n- {code}\n", [],
                          "docs/a.md")
        self.assert_lines(check, f"the {code}\n", [1], "docs/a.md")
        self.assert_lines(check, f"{long}\n", [], "examples/a.md")


class Tree(unittest.TestCase):
    def test_binaries_live_with_the_examples(self):
        files = [
            SourceFile("docs/a.png", b"\x89PNG\0"),
            SourceFile("examples/data/a.gz", b"\x1f\x8b\0"),
            cpp("int a;"),
        ]
        found = [finding.path for finding in tree_rules.check_binaries(files)]
        self.assertEqual(found, ["docs/a.png"])

    def test_copies_are_equal(self):
        original, copy = next(iter(tree_rules.COPIES.items()))
        equal = [SourceFile(original, b"a: 1"), SourceFile(copy, b"a: 1")]
        self.assertEqual(list(tree_rules.check_copies(equal)), [])
        other = [equal[0], SourceFile(copy, b"a: 2")]
        self.assertEqual([one.path for one in tree_rules.check_copies(other)], [copy])
        self.assertEqual([one.path for one in tree_rules.check_copies(equal[:1])], [copy])

    def test_sources_are_listed(self):
        listing = b"lockstep_library(x SOURCES a.cc sub/b.cc # c.cc\n)\n"
        files = [SourceFile("operator/local/CMakeLists.txt", listing)] + [
            cpp("", f"operator/local/{name}") for name in ("a.cc", "sub/b.cc", "c.cc", "d.h")
        ]
        found = [finding.path for finding in tree_rules.check_listed_sources(files)]
        self.assertEqual(found, ["operator/local/c.cc"])

    def test_type_names_are_used_once(self):
        files = [
            cpp(f"namespace {namespace} {{\n{code}\n}}", path)
            for path, namespace, code in (
                ("common/a.h", "a::b", "struct One {};\nclass Two;\nstruct Two::Impl {};"),
                ("common/b.h", "a::b", "enum class One : int { k };\nstruct Two {};"),
                ("common/c.cc", "a::b", "namespace {\nstruct One {};\n}\nvoid F() {\n}"),
                ("common/d.h", "a::c", "struct One { struct Two {}; };"),
                ("common/e.h", "a::b", "template <>\nstruct One<int> {};"),
            )
        ]
        found = [(one.path, one.line) for one in tree_rules.check_type_names(files)]
        self.assertEqual(found, [("common/b.h", 2)])

    def test_header_names_are_used_once(self):
        paths = ("common/a/one.h", "operator/b/one.cc", "operator/b/one.h", "operator/b/two.h")
        found = tree_rules.check_header_names([cpp("", path) for path in paths])
        self.assertEqual([one.path for one in found], ["operator/b/one.h"])

    def test_folders_have_a_bounded_number_of_sources(self):
        many = tree_rules.SOURCES_MAX + 1
        full = [cpp("", f"operator/full/{i}.cc") for i in range(many)]
        tests = [cpp("", f"operator/tested/{i}_test.cc") for i in range(many)]
        found = tree_rules.check_folder_sizes([*full, *tests])
        self.assertEqual([one.path for one in found], ["operator/full"])
        self.assertEqual(list(tree_rules.check_folder_sizes(full[1:])), [])

    def test_documents_name_what_is_there(self):
        text = (
            "# Title\nsee `operator/api/a.h`, operator/api, `operator/api/a` and operator/a/b.h.\n"
            "[good](b.md) [bad](c.md) [web](https://example.com/x) `operator/<name>/x`\n"
        )
        files = [
            SourceFile("docs/a.md", text.encode("utf-8")),
            SourceFile("docs/b.md", b"# Title\n"),
            cpp("", "operator/api/a.h"),
        ]
        found = [str(one) for one in tree_rules.check_document_paths(files)]
        self.assertEqual(
            found,
            [
                "docs/a.md:2: there is no operator/a/b.h",
                "docs/a.md:3: link to c.md, which is not there",
            ],
        )

    def found_in_pages(self, **pages):
        files = [
            SourceFile(path.replace("__", "/").replace("_md", ".md"), text.encode("utf-8"))
            for path, text in pages.items()
        ]
        return [str(one) for one in document_rules.check_pages(files)]

    def test_links_go_to_headings_that_are_there(self):
        found = self.found_in_pages(
            docs__a_md="# One\n\n## A job's `end`\n\n## Twice\n\n## Twice\n\n[x](#a-jobs-end)"
            " [y](b.md#two) [z](b.md#three) [w](#twice-1) [v](#twice-2)\n```\n[c](#no)\n```\n",
            docs__b_md="# Two\n[a.md](b.md) [b.md](b.md) [a](a.md)\n",
        )
        self.assertEqual(
            found,
            [
                "docs/a.md:9: link to #three, which docs/b.md has not",
                "docs/a.md:9: link to #twice-2, which docs/a.md has not",
                "docs/b.md:2: link to docs/b.md is written as a.md",
            ],
        )

    def test_pages_are_short(self):
        long = "# Title\n" + "line\n" * document_rules.PAGE_LINES_MAX
        found = self.found_in_pages(docs__a_md=long, docs__b_md="# Title\n", CHANGES_md=long)
        self.assertEqual(found, ["docs/a.md:301: 301 lines, the limit is 300 a page"])

    def test_comments_name_pages_that_are_there(self):
        files = [
            SourceFile("docs/a.md", b"# Title\n"),
            cpp("// docs/a.md tells, docs/b/c.md not", "common/a.h"),
        ]
        found = [str(one) for one in document_rules.check_pages(files)]
        self.assertEqual(found, ["common/a.h:1: there is no docs/b/c.md"])

    def test_menu_has_every_page_once(self):
        menu = b"nav:\n- Home: a.md\n- Part:\n  - sub/b.md\n  - Again: a.md\n  - c.md\n"
        files = [
            SourceFile("mkdocs.yml", menu),
            *(SourceFile(f"docs/{name}.md", b"# Title\n") for name in
              ("a", "sub/b", "sub/d", "decisions/0001-x")),
        ]
        found = [str(one) for one in document_rules.check_pages(files)]
        self.assertEqual(
            found,
            [
                "mkdocs.yml:1: the menu has docs/a.md twice",
                "mkdocs.yml:1: the menu has docs/c.md, which is not there",
                "docs/sub/d.md:1: the menu in mkdocs.yml lacks this page",
            ],
        )

    @unittest.skipUnless(shutil.which(tree_rules.CLANG_FORMAT), "needs: clang-format 14")
    def test_format_drift(self):
        with tempfile.TemporaryDirectory() as root:
            Path(root, ".clang-format").write_text("BasedOnStyle: Google\n")
            Path(root, "a.cc").write_text("int a;\n\nint   b;\n")
            files = [SourceFile("a.cc", b"")]
            found = [(one.path, one.line) for one in tree_rules.check_format(files, root)]
        self.assertEqual(found, [("a.cc", 3)])

    @unittest.skipUnless(shutil.which("git"), "needs: git")
    def test_whole_run_names_file_and_line_and_fails(self):
        with tempfile.TemporaryDirectory() as root:
            subprocess.run(["git", "init", "-q", root], check=True)
            Path(root, ".gitignore").write_text("/build/\n")
            Path(root, "build").mkdir()
            Path(root, "build", "a.cc").write_text("ignored")
            Path(root, "README.md").write_text("no title\n")
            found = [str(finding) for finding in tidy.all_findings(Path(root))]
            self.assertEqual(found, ["README.md:1: document without a title"])
            self.assertEqual(tidy.main([root]), 1)
            Path(root, "README.md").write_text("# Title\n")
            self.assertEqual(tidy.main([root]), 0)


if __name__ == "__main__":
    unittest.main()
