"""A training under test: examples/mnist.yaml in pods, what workers tell, and how it recovers."""

import base64
import dataclasses
import hashlib
import hmac
import json
import time
import urllib.error
import urllib.request

from client import Watch
from jobs import JOB_LABEL, is_leaving, is_true
from processes import wait_for
from tools import REPOSITORY

EXAMPLE = REPOSITORY / "examples" / "mnist.yaml"
STATUS_PORT = 2223
RECOVERY_SECONDS = 30  # a bound for tests; what was measured is printed
# A trainer that leaves the cores to others, for tests that only need training to go on: it would
# take all that there is, for as long as a test waits. It asks for as much as it may have.
TRAINER = {"name": "trainer", "resources": {"limits": {"cpu": "300m"}}}
BESIDE_OTHERS = {"template": {"spec": {"containers": [TRAINER]}}}
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclasses.dataclass
class Recovery:
    """From a kill to the next step of all ranks, in seconds: consecutive parts."""

    detect: float  # until a survivor has noticed
    create: float  # until the API server shows the new pod
    start: float  # until its process runs
    meet: float  # until all ranks have met
    step: float  # until the first step

    @property
    def total(self):
        return sum(dataclasses.astuple(self))

    def __str__(self):
        parts = " ".join(f"{name} {value:.2f}" for name, value in dataclasses.asdict(self).items())
        return f"{self.total:.2f} s = {parts}"


class Training:
    """One job of a namespace."""

    def __init__(self, product, namespace, name="mnist"):
        self._product = product
        self.plane, self.admin = product.plane, product.admin
        self.namespace = namespace
        self.name = name
        self._key = None

    def start(self, role=None, run_policy=None, spec=None, **training):
        if not (role or run_policy or spec or training):
            self.plane.kubectl("apply", "-n", self.namespace, "-f", EXAMPLE)
            return self
        document = self.plane.read(EXAMPLE)
        whole = document["spec"]
        whole["training"].update(training)
        whole["roles"][0].update(role or {})
        whole["runPolicy"] = run_policy or {}
        whole.update(spec or {})
        document["metadata"] = {"name": self.name}
        self.admin.create(document, self.namespace)
        return self

    def job(self):
        return self.admin.get("TrainingJob", self.name, self.namespace)

    def pods(self):
        """Those that stand for a rank now, by task: "worker-1". Copies of them have no owner."""
        pods = {}
        for pod in self.admin.list("Pod", self.namespace, labels=f"{JOB_LABEL}={self.name}"):
            if not pod["metadata"].get("ownerReferences"):
                continue
            labels = pod["metadata"]["labels"]
            task = f"{labels['lockstep.dev/role']}-{labels['lockstep.dev/index']}"
            older = pods.get(task)
            if not is_leaving(pod) and (older is None or _incarnation(pod) > _incarnation(older)):
                pods[task] = pod
        return pods

    def containers(self):
        """By pod: its uid, its container, and how often that was started."""
        return {
            pod["metadata"]["name"]: (pod["metadata"]["uid"], *[
                (each.get("containerID"), each["restartCount"])
                for each in pod["status"].get("containerStatuses", [])])
            for pod in self.pods().values()
        }

    def key(self):
        """The job's key, which only an administrator can read."""
        if self._key is None:
            secrets = self.admin.list("Secret", self.namespace, labels=f"{JOB_LABEL}={self.name}")
            (data,) = secrets[0]["data"].values()
            self._key = base64.b64decode(data)
        return self._key

    def sign(self, body):
        return hmac.new(self.key(), body, hashlib.sha256).hexdigest()

    def ask(self, pod, path, body=None, headers=None):
        """(HTTP status, body) of a worker's answer; (0, "") where there is none."""
        url = f"http://{pod['status'].get('podIP')}:{STATUS_PORT}{path}"
        request = urllib.request.Request(url, body, headers or {})
        try:
            with _OPENER.open(request, timeout=2) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def status(self, pod):
        """A worker's status document; None while it has none."""
        expires = str(int(time.time()) + 60)
        signed = self.sign(f"status\n{pod['metadata']['name']}\n{expires}".encode())
        token = {"Authorization": f"Bearer {expires}.{signed}"}
        code, body = self.ask(pod, "/status", headers=token)
        return json.loads(body) if code == 200 else None

    def wait_status(self, pod, seconds=30):
        """A worker's status document, which one that is busy may not give at once."""
        return self.wait(lambda: self.status(pod), seconds, f"{pod['metadata']['name']} to answer")

    def metric(self, pod, series):
        """The value of one series of a worker's page; None while there is none."""
        for line in self.ask(pod, "/metrics")[1].splitlines():
            if line.startswith(series + " "):
                return float(line.rpartition(" ")[2])
        return None

    def wait_steps(self, seconds=120):
        """Waits until every worker has made a step in the newest meeting."""
        size = sum(role["replicas"] for role in self.job()["spec"]["roles"])

        def all_step():
            pods = self.pods()
            if len(pods) < size or not all(pod["status"].get("podIP") for pod in pods.values()):
                return False
            documents = [self.status(pod) for pod in pods.values()]
            return all(document and document["phase"] == "training" and document["step"] > 0
                       for document in documents)

        self.wait(all_step, seconds, "all workers to train")

    def wait_for(self, condition, seconds=180):
        """Waits until the job has that condition, and returns it."""
        self.wait(lambda: is_true(self.job(), condition), seconds, f"the job to be {condition}")
        return self.job()

    def measure_recovery(self, task, harm, seconds=RECOVERY_SECONDS):
        """Does `harm` to the pod of a task and waits for the next step of all."""
        pods = self.pods()
        victim = pods.pop(task)
        watch = Watch(self.admin, "Pod", self.namespace, labels=f"{JOB_LABEL}={self.name}")
        try:
            began = time.monotonic()
            harm(victim)
            # Only the successor's first step is surely one after the loss.
            steps = self.wait(lambda: self._steps_of_successor(task, victim), seconds,
                              "the next step")
        finally:
            watch.close()
        successor = self.pods()[task]
        created = min(arrival for arrival, kind, pod in watch.events
                      if kind == "ADDED" and pod["metadata"]["uid"] == successor["metadata"]["uid"])
        told = [each for pod in pods.values()
                for each in _events_after(self.wait_status(pod), "peer_lost", began)]
        noticed = min(told, default=created)  # sometimes it is the operator who tells them
        document = self.wait_status(successor)
        started = _events_after(document, "process_start", began)[0]
        met = _events_after(document, "rendezvous_end", began)[-1]
        return Recovery(noticed - began, created - noticed, started - created, met - started,
                        steps[-1] - met)

    def _steps_of_successor(self, task, victim):
        pod = self.pods().get(task, victim)
        is_new = pod["metadata"]["uid"] != victim["metadata"]["uid"]
        return _events_after(self.status(pod) or {}, "first_step", 0) if is_new else []

    def wait(self, condition, seconds, what):
        """What is true of `condition` within that time; the failure says how the job stands."""
        try:
            return wait_for(condition, seconds, what)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.describe()}") from None

    def describe(self):
        """Everything that explains why a test failed."""
        parts = [self.plane.kubectl("describe", "tj,pods", "-n", self.namespace, check=False)[1]]
        for pod in self.pods().values():
            name = pod["metadata"]["name"]
            log = self.plane.kubectl("logs", name, "-n", self.namespace, "--tail=15", check=False)
            parts.append(f"{name}:\n{log[1]}")
        parts.append(self._product.operator_log())
        return "\n".join(parts)


def _events_after(document, kind, moment):
    """When these events of a worker's timeline happened. All nodes share one clock."""
    times = [event["monotonicNs"] / 1e9 for event in document.get("timeline", [])
             if event["event"] == kind]
    return [each for each in times if each > moment]


def _incarnation(pod):
    labels = pod["metadata"]["labels"]
    return int(labels["lockstep.dev/attempt"]), int(labels["lockstep.dev/incarnation"])
