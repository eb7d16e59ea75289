"""What the chart renders, compared with snapshots; what it refuses; what its package holds.

    tests/helm/chart_test.py              compares
    tests/helm/chart_test.py --rewrite    writes the snapshots anew, to be reviewed as a diff"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

from helm import CHART, REPOSITORY, helm
from tools import BIN, require_tools

HERE = pathlib.Path(__file__).parent
# Snapshot: the values that it is rendered with, besides the chart's own.
SNAPSHOTS = {"default": None, "namespaces": "namespaces.yaml", "everything": "everything.yaml"}
is_rewrite_wanted = False

# What `--set` is refused, and a word of the refusal.
REFUSED = {
    "replicas=0.5": "replicas",
    "replicas=6": "replicas",
    "leaderElection=false,replicas=2": "replicas",
    "terminationGracePeriodSeconds=30": "terminationGracePeriodSeconds",
    "transport=curl": "transport",
    "keySecret=Upper": "keySecret",
    "keySecret=a..b": "keySecret",
    "clusterDomain=a..b": "clusterDomain",
    "networkPolicy.enabled=true": "watchNamespaces",
    "log.level=loud": "level",
    "image.repository=": "repository",
    "image.repository=registry.example:5000:80/x": "repository",
    "runtimeImage.repository=registry.example//x": "repository",
    "image.tag=a b": "tag",
    "image.digest=0123": "digest",
    "image.pullPolicy=Sometimes": "pullPolicy",
    "metrics.port=80": "port",
    "watchNamespaces={Team_A}": "watchNamespaces",
    "watchNamespaces={a,a}": "watchNamespaces",
    "extraArgs={positional}": "extraArgs",
    "roundLog.mib=0": "mib",
    "fairShareHalfLife=week": "fairShareHalfLife",
    "learnRunTimes=often": "learnRunTimes",
    "replica=1": "replica",
    "kueue.enabled=maybe": "kueue",
    "provisioning.enabled=maybe": "provisioning",
    "placeholderPods.enabled=maybe": "placeholderPods",
    "nativeBinding.enabled=maybe": "nativeBinding",
    "podSecurity=privileged": "podSecurity",
    "priorityClassName=a: b": "priorityClassName",
    "imagePullSecrets={a b}": "imagePullSecrets",
    "imagePullSecrets[0].name=a": "imagePullSecrets",
    r"podLabels.app\.kubernetes\.io/name=mine": "podLabels",
    "networkPolicy.enabled=true,watchNamespaces=null": "watchNamespaces",
    "metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.interval=null": "interval",
    # A monitor of a Service that is not there; a slip of the pen that would let everybody in.
    "metrics.service.enabled=false,metrics.serviceMonitor.enabled=true": "service",
    "networkPolicy.metricsFrom[0].podSelecter.matchLabels.a=b": "podSelecter",
    "networkPolicy.workersFrom[0].podSelector.a=b": "podSelector",
    "networkPolicy.metricsFrom[0].ipBlock.except={10.0.0.0/8}": "cidr",
    "tolerations[0].efect=NoSchedule": "efect",
    "affinity.podAntiAfinity.a=b": "podAntiAfinity",
    "dashboards.enabled=maybe": "dashboards",
    r"dashboards.labels.app\.kubernetes\.io/name=mine": "dashboards",
    "alerts.enabled=maybe": "alerts",
    "alerts.runbookBase=https://wiki.example/no-slash": "runbookBase",
    "alerts.runbookBase=docs/": "runbookBase",
}

# What the operator ends with 2 on, which the chart must refuse before.
REFUSED_BY_OPERATOR = (
    *(f"fairShareHalfLife={each}" for each in (
        "599s", "31536001s", "5m", "9m", "525601m", "8761h", "366d", "999999999d")),
    "topologyLevels={a..b/c}", "topologyLevels={a/b/c}", "topologyLevels={-a}",
    f"topologyLevels={{{'a' * 64}}}", f"topologyLevels={{{'a.' * 127}b/c}}",
    "watchNamespaces={a.b}", "runtimeImage.pullPolicy=Sometimes", "podSecurity=privileged",
    "transport=curl", "log.level=loud", "log.format=yaml",
    "roundLog.enabled=true,roundLog.mib=0", "roundLog.enabled=true,roundLog.mib=65537",
    "extraArgs={--log-level=debug}", "extraArgs={--metrics-address=:1}", "extraArgs={--one=1}",
    "extraArgs={--api-concurrency=0}", "extraArgs={--api-concurrency=257}",
    "extraArgs={--api-concurrency=1,--api-concurrency=1}", "extraArgs={--lease-duration=15}",
)

# The widest that both accept.
ACCEPTED = (
    *(f"fairShareHalfLife={each}" for each in (
        "0s", "600s", "31536000s", "10m", "525600m", "1h", "8760h", "1d", "365d")),
    f"topologyLevels={{{'a' * 63},{'a.' * 126}b/c}}", "watchNamespaces={1-a}",
    "extraArgs={--api-concurrency=1}", "extraArgs={--api-concurrency=256}",
    r"extraArgs={--lease-duration=1m,--renew-deadline=40s,--retry-period=500ms}",
    "image.repository=localhost:5000/team/a__b", "runtimeImage.repository=x",
)

# What cannot be done without: taken away, it is refused by name.
NEEDED = (
    "crds", "crds.install", "image", "image.tag", "log", "log.level", "metrics", "metrics.port",
    "metrics.service", "metrics.service.enabled", "podSecurity", "rbac", "rbac.aggregate",
    "replicas", "roundLog", "roundLog.enabled", "roundLog.mib", "runtimeImage",
    "runtimeImage.pullPolicy", "serviceAccount", "serviceAccount.create",
    "terminationGracePeriodSeconds", "transport",
)

# What can be done without.
SPARED = (
    "affinity", "alerts", "clusterDomain", "dashboards",
    "extraArgs", "fairShareHalfLife", "image.digest", "imagePullSecrets", "keySecret",
    "kueue", "learnRunTimes", "metrics.podMonitor", "metrics.serviceMonitor", "nativeBinding",
    "networkPolicy.metricsFrom", "nodeSelector", "placeholderPods", "podAnnotations", "podLabels",
    "priorityClassName", "provisioning", "resources", "runtimeImagePullSecrets",
    "serviceAccount.annotations", "serviceAccount.name", "tolerations", "watchNamespaces",
)

# Names that YAML takes for something else unless they are quoted, or that have dots.
ODD_NAMES = (
    "imagePullSecrets={123}", "imagePullSecrets={reg.example}", "runtimeImagePullSecrets={a.b}",
    "keySecret=1.5", "serviceAccount.name=123", "priorityClassName=no",
    "watchNamespaces={123}", "watchNamespaces={true}",
)


class ChartTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        require_tools("helm")
        cls.home = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-helm-"))
        cls.addClassCleanup(shutil.rmtree, cls.home)

    def helm(self, *arguments):
        code, output, errors = helm(self.home, *arguments)
        self.assertEqual(code, 0, errors)
        return output

    def render(self, *options):
        return self.helm("template", "lockstep", CHART, "--namespace", "lockstep-system", *options)

    def test_lint_has_nothing_to_say(self):
        for values in SNAPSHOTS.values():
            options = ["--values", HERE / "values" / values] if values else []
            output = self.helm("lint", "--strict", CHART, *options)
            self.assertIn("0 chart(s) failed", output)
            self.assertNotIn("[WARNING]", output)

    def test_renders_as_before(self):
        for name, values in SNAPSHOTS.items():
            # The definitions are reviewed where they are written.
            options = ["--set", "crds.install=false"]
            options += ["--values", HERE / "values" / values] if values else []
            snapshot = HERE / "snapshots" / f"{name}.yaml"
            rendered = self.render(*options)
            if is_rewrite_wanted:
                snapshot.write_text(rendered)
            self.maxDiff = None
            self.assertEqual(rendered, snapshot.read_text(), f"see the head of {__file__}")

    def test_the_definition_is_rendered_and_kept(self):
        kept = "helm.sh/resource-policy: keep"
        self.assertEqual(self.render().count(kept), 2)
        self.assertEqual(self.render("--set", "crds.install=false").count(kept), 0)

    def test_bad_values_are_refused_by_name(self):
        for setting, word in REFUSED.items():
            with self.subTest(setting):
                code, _, errors = helm(self.home, "template", "x", CHART, "--set", setting)
                self.assertNotEqual(code, 0)
                self.assertIn("values don't meet the specifications", errors)
                self.assertIn(word, errors)

    def run_operator(self, setting, *options):
        """The exit code of the operator with the arguments that the chart gives it."""
        rendered = self.render("--set", setting, *options)
        arguments = re.findall(r"^            - (--.*)$", rendered, re.MULTILINE)
        self.assertGreater(len(arguments), 10)
        ran = subprocess.run([BIN / "lockstep-operator", *arguments, "--kubeconfig=none"],
                             capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        return ran.returncode

    def test_what_the_operator_refuses_the_chart_refuses_first(self):
        for setting in REFUSED_BY_OPERATOR:
            with self.subTest(setting):
                self.assertEqual(self.run_operator(setting, "--skip-schema-validation"), 2)
                code, _, errors = helm(self.home, "template", "x", CHART, "--set", setting)
                self.assertNotEqual(code, 0)
                self.assertIn("values don't meet the specifications", errors)
        for setting in ACCEPTED:
            with self.subTest(setting):
                self.assertEqual(self.run_operator(setting), 1, "there is no kubeconfig")

    def test_extra_args_are_the_flags_that_the_chart_does_not_set(self):
        said = subprocess.run([BIN / "lockstep-operator", "--help"], capture_output=True, text=True,
                              check=True, timeout=60).stdout
        flags = set(re.findall(r"^ +(?:-\w,)?--([a-z-]+)", said, re.MULTILINE))
        chart = (CHART / "templates" / "deployment.yaml").read_text()
        schema = json.loads((CHART / "values.schema.json").read_text())
        extra = re.findall(r"[a-z]+(?:-[a-z]+)+", json.dumps(schema["properties"]["extraArgs"]))
        outside = {"help", "version", "kubeconfig", "context"}  # of no use in the pod
        self.assertEqual(flags - set(re.findall(r"- --([a-z-]+)", chart)) - outside, set(extra))

    def test_what_is_needed_is_missed_by_name(self):
        for name in NEEDED:
            with self.subTest(name):
                code, _, errors = helm(self.home, "template", "x", CHART, "--set", f"{name}=null")
                self.assertNotEqual(code, 0)
                self.assertIn("values don't meet the specifications", errors)
                self.assertIn(name.rpartition(".")[2], errors)

    def test_what_is_not_needed_may_be_taken_away(self):
        for name in SPARED:
            with self.subTest(name):
                self.render("--set", f"{name}=null")

    def test_two_releases_share_no_name_outside_of_their_namespaces(self):
        names = []
        for release, namespace in (("lockstep", "a-b"), ("lockstep-a", "b"), ("lockstep", "a"),
                                   ("lockstep", "a-view")):
            rendered = self.helm(
                "template", release, CHART, "--namespace", namespace, "--set", "crds.install=false",
                "--set", "networkPolicy.enabled=true,watchNamespaces={x,y}")
            objects = [(kind, name, place or "") for kind, name, place in re.findall(
                r'^kind: (\w+)\nmetadata:\n  name: (\S+)(?:\n  namespace: "(.*)")?$', rendered,
                re.MULTILINE)]
            names += [each for each in objects if each[2] != namespace]
        self.assertEqual(len(names), 4 * (4 + 2 * 3), names)
        self.assertEqual(len(set(names)), len(names), sorted(names))

    def test_odd_names_stay_texts(self):
        for setting in ODD_NAMES:
            with self.subTest(setting):
                name, _, value = setting.partition("=")
                rendered = self.render("--set-string", setting)
                texts = [f'"{value.strip("{}")}"', f"={value.strip('{}')}"]
                self.assertTrue(any(text in rendered for text in texts), rendered)
                bare = rf"(name|namespace|Name): {re.escape(value.strip('{}'))}$"
                self.assertIsNone(re.search(bare, rendered, re.MULTILINE), name)

    def notes(self, *settings):
        """What helm prints after an installation. helm shows it to a cluster only, so this renders
        a copy of the chart whose notes are in an object."""
        copy = pathlib.Path(tempfile.mkdtemp(dir=self.home)) / "lockstep"
        shutil.copytree(CHART, copy)
        text = (copy / "templates" / "NOTES.txt").read_text()
        (copy / "templates" / "notes.yaml").write_text(
            f'{{{{- define "notes" }}}}{text}{{{{ end }}}}\n'
            'kind: Notes\ntext: {{ include "notes" . | quote }}\n')
        return self.helm("template", "lockstep", copy, "--show-only", "templates/notes.yaml",
                         *(word for setting in settings for word in ("--set", setting)))

    def test_notes_warn_of_alerts_without_a_scrape(self):
        warning = "LockstepNoLeader fires for ever"
        self.assertIn(warning, self.notes("alerts.enabled=true"))
        self.assertNotIn(warning, self.notes("alerts.enabled=true",
                                             "metrics.serviceMonitor.enabled=true"))
        self.assertNotIn(warning, self.notes("metrics.serviceMonitor=null"))

    def test_images_may_be_named_by_digest(self):
        digest = f"sha256:{'0123abcd' * 8}"
        rendered = self.render("--set", f"image.digest={digest},runtimeImage.digest={digest}")
        self.assertIn(f"image: localhost/lockstep-operator@{digest}\n", rendered)
        self.assertIn(f"--runtime-image=localhost/lockstep-runtime@{digest}\n", rendered)

    def test_a_release_may_be_called_by_a_number_or_with_dots(self):
        rendered = self.helm("template", "1.5", CHART, "--namespace", "123")
        self.assertIn("name: 1-5-lockstep-metrics\n", rendered)
        self.assertIn('app.kubernetes.io/instance: "1.5"\n', rendered)
        self.assertIsNone(re.search(r"(: |\[)123\b", rendered), rendered)

    def test_a_value_that_is_taken_away_is_as_if_it_were_not_mentioned(self):
        policies = self.render("--set", "networkPolicy=null").count("kind: NetworkPolicy")
        self.assertEqual(policies, 0)
        elected = self.render("--set", "leaderElection=null", "--set", "replicas=2")
        self.assertIn("--leader-elect=true", elected)
        self.assertIn("type: RollingUpdate", elected)

    def test_the_package_holds_the_definition_itself_and_no_more_than_the_chart(self):
        self.helm("package", CHART, "--destination", self.home)
        with tarfile.open(next(self.home.glob("lockstep-*.tgz"))) as package:
            files = {member.name: member for member in package.getmembers()}
            for definition in (REPOSITORY / "crds").glob("*.yaml"):
                name = f"lockstep/files/{definition.name}"
                self.assertTrue(files[name].isreg())
                self.assertEqual(package.extractfile(name).read(), definition.read_bytes())
        tops = {pathlib.PurePath(file).parts[1] for file in files}
        self.assertEqual(tops - {".helmignore"}, {"Chart.yaml", "files", "templates",
                                                  "values.schema.json", "values.yaml"})

    def test_chart_and_project_have_one_version(self):
        project = (REPOSITORY / "CMakeLists.txt").read_text()
        chart = (CHART / "Chart.yaml").read_text()
        version = project.partition("project(lockstep VERSION ")[2].split()[0]
        self.assertIn(f"\nversion: {version}\n", chart)
        self.assertIn(f"\nappVersion: {version}\n", chart)


if __name__ == "__main__":
    if "--rewrite" in sys.argv:
        sys.argv.remove("--rewrite")
        is_rewrite_wanted = True
    unittest.main(verbosity=2)
