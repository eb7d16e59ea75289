"""A real API server, `lockstep validate` and the operator's decoder agree about every manifest of
crds/examples, and kubectl shows TrainingJobs well."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

from client import ApiError, path_of
from hollow_nodes import GPU
from kubernetes_case import KubernetesCase, main
from processes import wait_for
from tools import BIN, REPOSITORY

EXAMPLES = REPOSITORY / "crds" / "examples"
VALID = sorted(EXAMPLES.glob("valid/*.yaml")) + sorted((REPOSITORY / "examples").glob("*.yaml"))
SEVERAL_OBJECTS = {"two-teams.yaml"}  # pages_test.py applies them
INVALID = sorted(EXAMPLES.glob("invalid/*.yaml"))
ONLY_OPERATOR_MAX = 9  # the API server should know nearly everything

STATUS = {
    "state": "Restarting",
    "ready": "2/3",
    "restartCount": 4,
    "reason": "worker-1 was killed",
    "columns": {"step": "120/900", "loss": "1.923", "eta": "2h10m", "queue": "vision #3",
                "reason": "worker-1 was…"},
    "replicas": 3,
    "selector": "lockstep.dev/job=columns,lockstep.dev/role=worker",
    "attempt": 1,
    "podGroup": "columns-0123-1",
    "epoch": 5,
    "conditions": [
        {"type": "Restarting", "status": "True", "reason": "RankReplaced",
         "message": "worker-1 was killed", "lastTransitionTime": "2026-11-21T10:22:03.120Z"},
        {"type": "GPUAssignment", "status": "False", "reason": "DeviceShared",
         "message": "GPU-1 is in two pods", "lastTransitionTime": "2026-11-21T10:22:03Z"},
    ],
    "placement": [
        {"role": "worker", "index": 0, "node": "n1", "incarnation": 2,
         "since": "2026-11-21T10:22:03Z", "podUid": "u", "completed": True, "devices": ["GPU-1"]},
    ],
    "roles": [{"name": "worker", "pending": 1, "active": 2, "succeeded": 0, "failed": 0}],
    "restarts": [{"cause": "crash", "count": 4}],
    "progress": {"step": 120, "stepsTotal": 753, "dataEpoch": 1, "loss": 0.25,
                 "samplesPerSecond": 3100.5, "etaSeconds": 19,
                 "observedAt": "2026-11-21T10:22:03Z"},
    "result": {"testLoss": 0.1, "testAccuracy": 0.97,
               "models": [{"rank": 0, "trainingLoss": 0.2, "testLoss": 0.1, "testAccuracy": 0.97}]},
    "startTime": "2026-11-21T10:22:03Z",
    "completionTime": "2026-11-21T10:25:03Z",
    "observedGeneration": 1,
    "controlCounter": 2,
    "quickRestarts": 1,
    "relaunch": {"count": 2, "since": "2026-11-21T10:22:03Z", "toldAt": "2026-11-21T10:22:05Z",
                 "halted": True},
    "rollbacks": 1,
    "retryAt": "2026-11-21T10:22:13Z",
    "queue": {"name": "vision", "position": 3, "estimatedStart": "2026-11-21T10:23:00Z"},
}


def header(path):
    """What the file's first lines say: {"expect": ..., and one of "server": ...,
    "kubectl": ..., "only-operator": ""}."""
    said = {}
    for line in path.read_text().splitlines():
        if not line.startswith("# "):
            break
        key, _, value = line[2:].partition(": ")
        said[key] = value
    return said


def job(name, **spec):
    container = {"name": "trainer", "command": ["train"]}
    worker = {"name": "worker", "replicas": 3, "template": {"spec": {"containers": [container]}}}
    return {"apiVersion": "lockstep.dev/v1", "kind": "TrainingJob", "metadata": {"name": name},
            "spec": {"roles": [worker], **spec}}


def validate(*paths):
    run = subprocess.run([BIN / "lockstep", "validate", *paths], capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


class ValidateCommandTest(unittest.TestCase):
    def test_accepts_every_valid_manifest(self):
        code, output = validate(*VALID)
        self.assertEqual(code, 0, output)

    def test_refuses_every_invalid_manifest_with_the_expected_words(self):
        self.assertGreaterEqual(len(INVALID), 200)
        for path in INVALID:
            with self.subTest(path.name):
                code, output = validate(path)
                self.assertEqual(code, 2, output)
                self.assertIn(header(path)["expect"], output)

    def test_only_few_mistakes_are_for_the_operator_alone(self):
        for path in INVALID:
            who = {"server", "kubectl", "only-operator"} & set(header(path))
            self.assertEqual(len(who), 1, path.name)
        only_operator = [path.name for path in INVALID if "only-operator" in header(path)]
        self.assertLessEqual(len(only_operator), ONLY_OPERATOR_MAX, only_operator)


class ApiServerTest(KubernetesCase):
    options = {"controllers": False}

    @classmethod
    def start_more(cls):
        # A new kind is served, and can be explained, a moment after it is established.
        wait_for(
            lambda: cls.plane.kubectl("explain", "tj.spec", check=False)[0] == 0, 30,
            "TrainingJobs to be explained",
        )

    def dry_run(self, path):
        """(what would be stored, None) or (None, why not), as kubectl create asks for it; one
        kubectl for each of hundreds of files would take longer than all else here."""
        text = path.read_text()
        kind = re.search(r"^kind: *(\w+)", text, re.MULTILINE)[1]
        try:
            return self.admin.request(
                "POST", path_of(kind, "default"), text, "application/yaml",
                {"dryRun": "All", "fieldValidation": "Strict"}), None
        except ApiError as refused:
            return None, str(refused)

    def test_accepts_every_valid_manifest_and_the_operator_what_it_stores(self):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for path in (path for path in VALID if path.name not in SEVERAL_OBJECTS):
                with self.subTest(path.name):
                    stored, refusal = self.dry_run(path)
                    self.assertIsNone(refusal)
                    files.append(pathlib.Path(folder) / f"{path.stem}.json")
                    files[-1].write_text(json.dumps(stored))
            code, output = validate(*files)
            self.assertEqual(code, 0, output)

    def test_refuses_every_invalid_manifest_with_the_expected_words(self):
        for path in INVALID:
            with self.subTest(path.name):
                said = header(path)
                if "kubectl" in said:
                    code, output = self.plane.kubectl("create", "--dry-run=server", "-f", path,
                                                      check=False)
                    self.assertEqual(code, 1, output)
                    self.assertIn(said["kubectl"], output)
                    continue
                _, refusal = self.dry_run(path)
                if "only-operator" in said:
                    self.assertIsNone(refusal)
                else:
                    self.assertIsNotNone(refusal)
                    self.assertIn(said["server"], refusal)

    def test_a_queue_limits_what_containers_can_ask_for_and_nothing_else(self):
        namespace = self.make_namespace()
        names = {
            "cpu": 1, "memory": 1, "ephemeral-storage": 1, "hugepages-2Mi": "2Gi",
            "hugepages-64Ki": "2Gi", GPU: 1, "nvidia.com/mig-1g.5gb": 1, "rdma/hca": 1,
            "kubernetes.io/batch-cpu": 1, "limits.example.com/a": 1, "example.com/A_b.c": 1,
            "a" * 244 + "/gpu": 1,
            "gpu": 1, "pods": 1, "storage": 1, "requests.cpu": 1, "limits.memory": 1,
            "requests.nvidia.com/gpu": 1, "my_pages.v2": 1, "my gpu": 1, "/gpu": 1,
            "nvidia.com/": 1, "NVIDIA.com/gpu": 1, "a/b/c": 1, "hugepages-": "2Gi",
            "hugepages-2MB": "2Gi", "a" * 254 + "/gpu": 1, "": 1,
        }
        for name, amount in names.items():
            limits = {"memory": "2Gi", name: amount}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asks"},
                   "spec": {"containers": [{"name": "main", "image": "localhost/other:1",
                                            "resources": {"limits": limits}}]}}
            queue = {"apiVersion": "lockstep.dev/v1", "kind": "TrainingQueue",
                     "metadata": {"name": "vision"}, "spec": {"nominal": {name: amount}}}
            with self.subTest(name):
                self.assertEqual(self.refusal_of(queue) is None,
                                 self.refusal_of(pod, namespace) is None,
                                 f"{self.refusal_of(queue)} {self.refusal_of(pod, namespace)}")

    def refusal_of(self, document, namespace=None):
        """What the server says to it; None where it would take it."""
        try:
            self.admin.request("POST", path_of(document["kind"], namespace), document,
                               query={"dryRun": "All"})
        except ApiError as refused:
            return str(refused)
        return None

    def make_namespace(self):
        """With what pods need of it, as no controller makes that here."""
        name = "pods"
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.admin.create({"apiVersion": "v1", "kind": "ServiceAccount",
                           "metadata": {"name": "default"}}, name)
        return name

    def test_fills_in_the_defaults(self):
        self.admin.create(job("defaults"))
        spec = self.admin.get("TrainingJob", "defaults")["spec"]
        self.assertEqual(spec["strategy"], "MultiWorkerMirrored")
        self.assertEqual(spec["roles"][0]["restartPolicy"], "ExitCode")
        self.assertNotIn("gpus", spec["roles"][0])
        self.assertEqual(spec["runPolicy"],
                         {"suspend": False, "cleanPodPolicy": "Running", "backoffLimit": 6,
                          "evaluatorGraceSeconds": 300})
        self.assertEqual(spec["scheduling"],
                         {"binding": "Affinity", "startTimeoutSeconds": 600})
        self.assertEqual(spec["recovery"]["silentAfterSeconds"], 1.5)

    def test_stores_the_whole_status_and_only_where_status_is_written(self):
        self.admin.create(job("status"))
        self.admin.patch("TrainingJob", "status", {"status": STATUS})
        self.assertNotIn("status", self.admin.get("TrainingJob", "status"))
        self.admin.patch("TrainingJob", "status", {"status": STATUS, "spec": {"replicas": 9}},
                         subresource="status")
        stored = self.admin.get("TrainingJob", "status")
        self.assertEqual(stored["status"], STATUS)
        self.assertEqual(stored["spec"]["replicas"], 0)
        self.assertEqual(stored["metadata"]["generation"], 1)

    def test_scales_the_workers(self):
        self.admin.create(job("scaled"))
        self.assertEqual(self.scale("scaled")["spec"], {})  # 0, which JSON leaves out
        self.plane.kubectl("scale", "tj/scaled", "--replicas=4")
        self.assertEqual(self.admin.get("TrainingJob", "scaled")["spec"]["replicas"], 4)
        self.assertEqual(self.scale("scaled")["spec"], {"replicas": 4})
        code, output = self.plane.kubectl("scale", "tj/scaled", "--replicas=0", check=False)
        self.assertEqual(code, 1)
        self.assertIn("To remove the job's pods, set runPolicy.suspend: true", output)

    def test_refuses_to_scale_beyond_what_the_strategy_takes(self):
        mirrored = job("mirrored", strategy="Mirrored")
        mirrored["spec"]["roles"][0]["replicas"] = 1
        self.admin.create(mirrored)
        code, output = self.plane.kubectl("scale", "tj/mirrored", "--replicas=2", check=False)
        self.assertEqual(code, 1)
        self.assertIn("expected exactly 1: Mirrored trains on one machine", output)

    def test_scale_finds_the_worker_pods(self):
        self.admin.create(job("selected", replicas=3))
        self.admin.patch("TrainingJob", "selected", {"status": STATUS}, subresource="status")
        self.assertEqual(self.scale("selected")["status"],
                         {"replicas": 3, "selector": STATUS["selector"]})

    def scale(self, name):
        return self.admin.request("GET", path_of("TrainingJob", "default", name, "scale"))

    def test_keeps_who_looks_after_a_job(self):
        self.admin.create(job("managed", runPolicy={"managedBy": "lockstep.dev/operator"}))
        for other in ("kueue.x-k8s.io/multikueue", None):
            with self.assertRaises(ApiError) as refused:
                self.admin.patch("TrainingJob", "managed",
                                 {"spec": {"runPolicy": {"managedBy": other}}})
            self.assertIn("cannot be changed once the job exists", refused.exception.message)
        self.admin.patch("TrainingJob", "managed", {"spec": {"runPolicy": {"suspend": True}}})

    def test_shows_the_columns(self):
        self.admin.create(job("columns", scheduling={"queue": "vision",
                                                     "priorityClassName": "urgent"}))
        self.admin.patch("TrainingJob", "columns", {"status": STATUS}, subresource="status")
        titles, row = self.plane.kubectl("get", "tj", "columns").splitlines()
        self.assertEqual(titles.split(), ["NAME", "STATE", "READY", "STEP", "LOSS", "ETA", "QUEUE",
                                          "AGE", "REASON"])
        self.assertEqual(row.split()[:8], ["columns", "Restarting", "2/3", "120/900", "1.923",
                                           "2h10m", "vision", "#3"])
        self.assertTrue(row.endswith("worker-1 was…"), row)
        titles, row = self.plane.kubectl("get", "tj", "columns", "-o", "wide").splitlines()
        self.assertEqual(titles.split()[9:], ["RESTARTS", "PRIORITY", "MESSAGE"])
        self.assertRegex(row, "worker-1 was… +4 +urgent +worker-1 was killed$")
        self.assertIn("trainingjob.lockstep.dev/columns",
                      self.plane.kubectl("get", "all", "-o", "name"))

    def test_explains_fields_at_every_level(self):
        for field, words in {
            "tj": "trains one model on several pods",
            "tj.spec.roles.replicas": "At most one chief and one evaluator",
            "tj.spec.roles.template.spec.containers.image": "operator's runtime image",
            "tj.spec.training.model": "The network, layer by layer",
            "tj.spec.training.model.layers.kernelSize": "[height, width]",
            "tj.spec.scheduling.binding": "Direct",
            "tj.spec.recovery.silentAfterSeconds": "counts as lost",
            "tj.status.conditions.type": "GPUAssignment",
        }.items():
            with self.subTest(field):
                text = " ".join(self.plane.kubectl("explain", field).split())
                self.assertIn(words, text)


if __name__ == "__main__":
    main()
