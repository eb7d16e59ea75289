"""The commands of the cluster tutorial and of how-to pages, pasted into a shell.

The API server, kubectl and helm are real; nodes are hollow, and the operator is a process of this
machine in place of the Deployment's pod. What needs a registry or a real node is left out by name.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "local"))

from hollow_nodes import HollowNodes, make_nodes
from jobs import JobCase
from kubernetes_case import main
from pasted import head, unprinted
from tools import BIN, REPOSITORY, tool

DOCS = REPOSITORY / "docs"
PASTE_SECONDS_MAX = 240


def commands(page):
    """The shell blocks of a page, in their order."""
    text = (DOCS / page).read_text()
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


class PageCase(JobCase):
    nodes, gpus = 2, 8

    @classmethod
    def start_more(cls):
        super().start_more()
        cls.note_path()

    @classmethod
    def note_path(cls):
        tools = {os.path.dirname(tool(name)) for name in ("kubectl", "helm")}
        cls.path = ":".join([str(BIN), *tools, os.environ["PATH"]])

    def setUp(self):
        super().setUp()
        self.kubeconfig = self.plane.folder / f"{self.namespace}.kubeconfig"
        shutil.copy(self.plane.kubeconfig("admin"), self.kubeconfig)

    def paste(self, text, **values):
        """Runs one block in the repository; `values` stand for the capitals of the page."""
        for name, value in values.items():
            text = re.sub(rf"\b{name}\b", value, text)
        ran = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", text], cwd=REPOSITORY, text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=PASTE_SECONDS_MAX,
            env={**os.environ, "PATH": self.path, "REGISTRY": "registry.example/team",
                 "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.plane.folder)})
        self.assertEqual(ran.returncode, 0, f"{text}\n{ran.stdout}\n{self.operator_log()}")
        return ran.stdout

    def operator_log(self):
        program = getattr(self, "operator", None) and self.operator.program
        return program.tail() if program else "no operator runs yet"

    def in_namespace(self):
        """Lets kubectl use the test's namespace, as a user's own context does."""
        self.paste(f"kubectl config set-context --current --namespace {self.namespace}")


class HowToTest(PageCase):
    def test_share_gpus(self):
        make, see = commands("how-to/share-gpus.md")
        self.addCleanup(self.admin.delete_all, "TrainingQueue", None)
        self.paste(make)
        self.assertRegex(self.paste(see), r"(?s)speech.*vision")

    def test_why_does_my_job_wait(self):
        ask, stands = commands("how-to/why-does-my-job-wait.md")
        self.create_job("large", 3, gpus=8)
        self.wait_waiting("large", "needs 24 GPUs")
        self.in_namespace()
        self.assertIn("needs 24 GPUs", self.paste(ask, NAME="large"))
        self.paste(stands, NAME="large")

    def test_resume(self):
        suspend, resume, *local = commands("how-to/resume.md")
        self.assertTrue(all("lockstep run --resume" in text for text in local))
        self.create_job("job", 2)
        self.wait_running("job", 2)
        self.in_namespace()
        self.paste(suspend, NAME="job")
        self.wait_condition("job", "Suspended")
        self.paste(resume, NAME="job")
        self.wait_running("job", 2)

    def test_drain_a_node(self):
        drain, uncordon = commands("how-to/drain-a-node.md")
        make_nodes(self.admin, ["spare"], self.gpus)
        self.addCleanup(self.admin.delete, "Node", "spare")
        self.create_job("job", 1, gpus=1)
        pod = self.wait_running("job", 1)[0]
        node = pod["spec"]["nodeName"]
        self.paste(drain, NODE=node)
        moved = self.wait_running("job", 1)[0]
        self.assertNotEqual(moved["spec"]["nodeName"], node)
        self.paste(uncordon, NODE=node)

    def test_example_of_two_teams(self):
        self.addCleanup(self.admin.delete_all, "TrainingQueue", None)
        for team in ("team-vision", "team-speech"):
            self.addCleanup(self.admin.delete_all, "Pod", team, gracePeriodSeconds=0)
            self.addCleanup(self.admin.delete_all, "TrainingJob", team)
        apply, seen = head("two-teams.yaml")
        output = self.paste(apply)
        self.assertEqual(unprinted(seen, output), [], output)
        self.namespace = "team-speech"
        self.end_job("listen")
        self.namespace = "team-vision"
        self.wait_running("segment", 4)

    def test_upgrade(self):
        queues, upgrade, apply, rollout, ready, definitions = commands("how-to/upgrade.md")
        self.paste(commands("how-to/share-gpus.md")[0])
        self.addCleanup(self.admin.delete_all, "TrainingQueue", None)
        self.assertIn("OK (queue vision)", self.paste(queues))
        self.assertIn("helm upgrade", upgrade)
        self.assertIn("kubectl apply", apply)
        self.assertIn("rollout status", rollout)
        # Not by the Service, which has no address of a pod that is not ready.
        self.assertIn("/pods/POD:8080/proxy/readyz?verbose", ready)
        self.paste(definitions, CHART="helm/lockstep")

    def test_private_registry(self):
        operator, jobs = commands("how-to/private-registry.md")
        home = operator.replace("kubectl create namespace lockstep-system\n", "").replace(
            "helm install lockstep", "helm template lockstep")
        rendered = self.paste(home)
        self.assertIn("imagePullSecrets:", rendered)
        self.assertIn("--image-pull-secrets=registry", rendered)
        self.paste(jobs.replace("namespace team-a", "namespace team-b"))


class FirstJobTest(PageCase):
    """The chart brings the definitions here. The operator is a cluster's administrator: tests/helm
    holds the chart to the rights that it gives."""

    options = {"crds": []}

    @classmethod
    def start_more(cls):
        cls.note_path()
        cls.hollow = HollowNodes(cls.plane, cls.nodes, cls.gpus)

    def remove_jobs(self):
        """The tutorial removes its own."""

    def test_first_job_on_a_cluster(self):
        images, install, rollout, train, get, delete, restarts, result, clean = commands(
            "tutorials/cluster.md")
        self.assertIn("docker build", images)
        self.paste(install)
        self.assertIn("successfully rolled out", self.paste(rollout))
        FirstJobTest.operator = self.make_operator()
        self.paste(f"kubectl create clusterrolebinding test --clusterrole=cluster-admin"
                   f" --user={self.operator.user}")
        self.operator.start()
        self.namespace = "team-a"
        self.paste(train)
        self.assertRegex(self.paste(get), r"trainingjob\S*/mnist +Running +3/3")
        self.paste(delete)
        self.assertIn("mnist-worker-1-r1", self.names("mnist"))
        self.assertIn('"deleted"', self.paste(restarts))
        self.end_job("mnist")
        self.assertIn("JobSucceeded", self.paste(result))
        self.paste(clean)
        self.assertEqual(self.admin.list("TrainingJob", "team-a"), [])


if __name__ == "__main__":
    main()
