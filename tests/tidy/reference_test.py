"""The reference pages say what the programs have: no entry is missing, and none is stale."""

import ast
import functools
import os
import pathlib
import re
import subprocess
import sys
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = REPOSITORY / "docs" / "reference"
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", REPOSITORY / "build" / "dev" / "bin"))
sys.path.insert(0, str(REPOSITORY / "scripts"))

from field_tables import schema_of, tables  # noqa: E402 (found through the line above)

CODE = re.compile(r"`([^`]+)`")
CAMEL = re.compile(r'"([A-Z][a-z]+(?:[A-Z][a-z]*)*)"')

# Where reasons of conditions and events stand.
REASON_SOURCES = ("operator/capacity", "operator/reconcile", "operator/controller",
                  "operator/view/stored/queue_status.cc", "operator/cmd/work_loop.cc",
                  "operator/api/status/conditions.h")
# Words of others there: Kubernetes' objects and fields, and what Kueue, autoscalers and kubelets
# say. A word that leaves the sources leaves this list.
OTHER_WORDS = set("""
    Accepted Admitted Always BookingExpired CapacityIsNotFound CapacityRevoked
    ClusterFirstWithHostNet Compare ContainerStatusUnknown ErrImageNeverPull ErrImagePull Evicted
    Failed FallbackToLogsOnError False Finished ImageInspectError ImagePullBackOff In JobChanged
    Memory Never NodeFailures NodeLost NodeShutdown None NoReservation NotIn Opaque Pending Pod
    PodGroup PodGroupInitiallyScheduled PodGroupScheduled PodScheduled PodsReady PodTemplate
    Preempting PreferNoSchedule PriorityClass Provisioned ProvisioningRequest QuotaReserved
    Recovered Requeued RuntimeDefault Secret Service Shutdown Started Succeeded Terminated True
    WaitForRecovery WaitForStart Workload
    """.split())

METRIC_SOURCES = {
    "The operator": ("operator/cmd/operator_metrics.cc", "operator/cmd/queue_metrics.cc"),
    "Pods of a job": ("trainer-runtime/telemetry/metrics.cc",),
}
KINDS = {"Counter": "counter", "Gauge": "gauge", "Histogram": "histogram"}

# Commands that have flags or exit codes of their own.
COMMANDS = {
    "lockstep": ("run", "validate", "render", "convert", "explain", "ps", "logs", "stop"),
    "lockstep-operator": (),
    "lockstep-runtime": ("run", "train", "install", "devices", "doctor"),
    "lockstep-replay": ("openb", "philly", "shape", "log"),
}


def sections(page):
    """The tables' rows of a reference page, as lists of cells, by the second-level heading."""
    found = {}
    title = ""
    for line in (REFERENCE / page).read_text().splitlines():
        if line.startswith("## "):
            title = line[3:]
        elif line.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            found.setdefault(title, []).append(cells)
    return found


def sources(paths):
    """The text of each source at or below the paths, without tests and comments."""
    for path in paths:
        root = REPOSITORY / path
        files = [root] if root.is_file() else sorted(root.rglob("*.cc")) + sorted(root.rglob("*.h"))
        for file in files:
            if "_test." not in file.name and "testing" not in file.parts:
                yield re.sub(r"//[^\n]*", "", file.read_text())


class Listed(unittest.TestCase):
    def same(self, page, written, real):
        self.assertEqual(sorted(real - written), [], f"{page} lacks these")
        self.assertEqual(sorted(written - real), [], f"{page} has these, which are gone")


class ConditionsTest(Listed):
    def test_every_reason_is_there_and_none_is_stale(self):
        in_source = {word for text in sources(REASON_SOURCES) for word in CAMEL.findall(text)}
        rows = [row for title, rows in sections("conditions.md").items()
                for row in rows if title and not title.startswith("Conditions of")]
        written = {word for row in rows for word in CODE.findall(row[0])}
        self.same("conditions.md", written, in_source - OTHER_WORDS)
        self.assertEqual(sorted(OTHER_WORDS - in_source), [], "no source says these any more")

    def test_every_condition_is_there_and_none_is_stale(self):
        text = (REPOSITORY / "operator/api/job/job_names.h").read_text()
        names = re.findall(r"ConditionType::k\w+, \"(\w+)\"", text)
        rows = sections("conditions.md")["Conditions of a TrainingJob"][2:]
        self.same("conditions.md", {CODE.match(row[0])[1] for row in rows}, set(names))


class MetricsTest(Listed):
    def test_every_metric_has_its_kind_and_none_is_stale(self):
        for title, paths in METRIC_SOURCES.items():
            in_source = self.metrics_of(" ".join(sources(paths)))
            self.assertGreater(len(in_source), 10)
            written = {(name.split("{")[0], row[1]) for name, row in self.rows(title)}
            self.same(f"metrics.md, {title}", written, in_source)

    def test_every_label_is_one_of_the_source(self):
        for title, paths in METRIC_SOURCES.items():
            text = " ".join(sources(paths))
            labels = {label for name, _ in self.rows(title) if "{" in name
                      for label in name.rstrip("}").split("{")[1].split(",")}
            in_source = set(re.findall(r"(?:(?:\{|\}, )\{|labels\[)\"([a-z_]+)\"(?:, |\])", text))
            self.same(f"labels of metrics.md, {title}", labels, in_source)

    def rows(self, title):
        for row in sections("metrics.md")[title]:
            name = CODE.match(row[0])
            if name and row[1] in KINDS.values():
                yield name[1], row

    @staticmethod
    def metrics_of(text):
        """(name, kind) of every registration: the kind is in the call around the name."""
        found = set()
        kind = None
        word = re.compile(r"(?:Build|Add)(Counter|Gauge|Histogram)s?\b|(\w+)\(\s*registry,"
                          r"|\"((?:lockstep|controller_runtime|workqueue|rest_client"
                          r"|leader_election)_[a-z_]+)\"")
        for match in word.finditer(text):
            if match[1]:
                kind = KINDS[match[1]]
            elif match[2]:
                kind = "gauge"  # LabelledGauges of the queues
            else:
                found.add((match[3], kind))
        return found


class FlagsTest(Listed):
    @classmethod
    def setUpClass(cls):
        if not (BIN / "lockstep").exists():
            raise unittest.SkipTest(f"needs: the programs in {BIN}")

    @classmethod
    @functools.cache
    def commands(cls):
        """(command, its --help) of every program that is built."""
        return [(" ".join(words), cls.help(*words))
                for program, names in COMMANDS.items() if (BIN / program).exists()
                for words in [(program,), *((program, name) for name in names)]]

    @staticmethod
    def help(program, *words):
        return subprocess.run([BIN / program, *words, "--help"], capture_output=True, text=True,
                              check=True, timeout=60).stdout

    def test_every_flag_is_there_with_its_default(self):
        pages = sections("flags.md")
        for command, text in self.commands():
            written = {}
            for row in pages.get(command, [])[2:]:
                for flag in CODE.findall(row[0]):
                    written[flag] = row[1]
            real = self.flags_of(text)
            self.same(f"flags.md, {command}", set(written), set(real))
            for flag, default in real.items():
                if default is not None:
                    self.assertEqual(written[flag], default, f"{command} {flag}")

    @staticmethod
    def flags_of(text):
        """Every flag, and its default where --help has it: [15s], (default: 1) or =15s."""
        flags = {}
        for entry in re.split(r"\n(?=  -|\n)", text.partition("\nOptions:")[2]):
            names = re.match(r"\s*((?:-\w,)?--[\w-]+)(?:,!?(--[\w-]+))?(?:\{false\})?", entry)
            if not names or names[1].endswith(("--help", "--version")):
                continue
            said = " ".join(entry.split())
            default = re.search(r"\[([^\[\]]+)\]$|\(default: ([^)]+)\)|[\w\]]=([^\sA-Z]+)", said)
            value = next(filter(None, default.groups())) if default else None
            for name in [*names[1].split(","), *filter(None, [names[2]])]:
                flags[name] = value
        return flags

    def test_exit_codes_of_programs(self):
        rows = sections("exit-codes.md")["Programs"]
        numbers = rows[0][1:]
        written = {CODE.match(row[0])[1]: {n for n, cell in zip(numbers, row[1:]) if cell}
                   for row in rows[2:]}
        written = {command: codes for command, codes in written.items()
                   if (BIN / command.split()[0]).exists()}
        real = {}
        for command, text in self.commands():
            said = re.search(r"Exit codes: (.*)", text, re.DOTALL)
            # Those of lockstep-replay are the same for all of its commands.
            is_own = not command.startswith(("lockstep-runtime", "lockstep-replay "))
            if said and is_own and command != "lockstep":
                real[command] = set(re.findall(r"(?:^|[,\n] ?)(\d+) ", said[1]))
        self.assertGreater(len(real), 8)
        self.assertEqual(written, real)


class ExitCodesTest(Listed):
    def test_every_code_is_there_and_none_is_stale(self):
        text = (REPOSITORY / "common/contract/status/exit_code.h").read_text()
        real = set(re.findall(r"constexpr int kExit\w+ = (\d+);", text)) - {"128"}
        rows = sections("exit-codes.md")["Pods"]
        written = {number for row in rows for number in re.findall(r"\b\d+\b(?![-\d])", row[0])
                   if re.fullmatch(r"[\d, ]+", row[0])}
        self.same("exit-codes.md", written, real)


class PythonBlocksTest(unittest.TestCase):
    def test_each_module_of_the_package_is_imported_where_it_is_used(self):
        package = REPOSITORY / "trainer-runtime/python/lockstep"
        modules = {path.stem for path in package.iterdir()} - {"__init__", "__pycache__"}
        used_anywhere = set()
        for page in sorted((REPOSITORY / "docs").rglob("*.md")):
            imported = set()
            for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
                nodes = list(ast.walk(ast.parse(block)))
                imported.update(alias.name.partition(".")[2] for node in nodes
                                if isinstance(node, ast.Import) for alias in node.names)
                used = {node.attr for node in nodes if isinstance(node, ast.Attribute)
                        and ast.unparse(node.value) == "lockstep"} & modules
                self.assertLessEqual(used, imported, page.name)
                used_anywhere |= used
        self.assertIn("keras", used_anywhere)


class SaidTest(unittest.TestCase):
    """What people met who were not told, and no table lists."""

    SENTENCES = {
        "exit-codes.md": ["| 75 | retryable | `unreachable`: a peer was lost, or did not join"],
        "checkpoints.md": ["The fence is not exclusive between nodes.",
                           "Over NFS such a lock may hold on one node only"],
        "exit-codes.md": ["| 75 | retryable | `unreachable`: a peer was lost, or did not join in"],
        "python.md": ["`pip install` of the folder compiles the library first, which takes several "
                      "minutes"],
    }

    def test_pages_say_it(self):
        for page, sentences in self.SENTENCES.items():
            text = " ".join((REFERENCE / page).read_text().split())
            for sentence in sentences:
                self.assertIn(sentence, text, page)


class FieldsTest(unittest.TestCase):
    """The tables of the site have every field of the definitions."""

    def test_every_field_has_a_row(self):
        for kind in ("trainingjobs", "trainingqueues"):
            definition = f"crds/lockstep.dev_{kind}.yaml"
            for section in ("spec", "status"):
                rows = [row for row in tables(definition, section) if row.startswith("| `")]
                schema = schema_of(definition)["properties"][section]
                self.assertEqual(len(rows), self.count(schema), f"{kind} {section}")
                self.assertEqual(len(rows), len({row.split("`")[1] for row in rows}))

    def count(self, schema):
        below = [*schema.get("properties", {}).values()]
        inner = [schema[key] for key in ("items", "additionalProperties")
                 if isinstance(schema.get(key), dict)]
        return len(below) + sum(self.count(field) for field in [*below, *inner])

    def test_a_row_has_type_default_and_bounds(self):
        rows = list(tables("crds/lockstep.dev_trainingjobs.yaml", "spec"))
        replicas = next(row for row in rows if row.startswith("| `spec.roles[].replicas`"))
        self.assertIn("| integer | `1` | at least 0; at most 4096 |", replicas)
        strategy = next(row for row in rows if row.startswith("| `spec.strategy`"))
        self.assertIn("| `MultiWorkerMirrored` | `Mirrored`, `MultiWorkerMirrored`,", strategy)
        self.assertTrue(any("| list of object | required |" in row for row in rows))

    def test_the_page_names_every_section(self):
        page = (REFERENCE / "fields.md").read_text()
        for kind in ("trainingjobs", "trainingqueues"):
            for section in ("spec", "status"):
                self.assertIn(f"\n<!-- fields: crds/lockstep.dev_{kind}.yaml {section} -->\n", page)


if __name__ == "__main__":
    unittest.main()
