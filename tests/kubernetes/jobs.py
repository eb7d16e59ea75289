"""The base of tests of the operator: TrainingJobs on hollow nodes, and what becomes of them."""

import time

from client import ApiError
from control_plane import CONTROL_PLANE_TOOLS
from hollow_nodes import GPU, HollowNodes
from kubernetes_case import KubernetesCase
from operator_process import NAMESPACE, Operator, grant_rights, require_operator
from processes import wait_for

JOB_LABEL = "lockstep.dev/job"
UID_LABEL = "lockstep.dev/job-uid"
TERMINAL = ("Succeeded", "Failed")


def training_job(name, workers, gpus=1, pod_spec=None, annotations=None, labels=None, **spec):
    """A job of one role whose program is the template's own; on hollow nodes it just runs."""
    container = {"name": "trainer", "image": "localhost/program:1", "command": ["train"]}
    pod_spec = {"terminationGracePeriodSeconds": 1, **(pod_spec or {})}
    container.update(pod_spec.pop("container", {}))
    template = {"spec": {**pod_spec, "containers": [container]}}
    if annotations:
        template["metadata"] = {"annotations": annotations}
    return {
        "apiVersion": "lockstep.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "roles": [
                {"name": "worker", "replicas": workers, "gpus": gpus, "template": template}
            ],
            **spec,
        },
    }


def foreign_pod(name, node=None, gpus=0, **more):
    """A pod that has nothing to do with us; with a node it is bound without any scheduler."""
    container = {"name": "main", "image": "localhost/other:1", **more}
    if gpus:
        container["resources"] = {"limits": {GPU: str(gpus)}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def is_running(pod):
    return pod["status"].get("phase") == "Running" and not is_leaving(pod)


def is_leaving(pod):
    return "deletionTimestamp" in pod["metadata"]


def condition(job, kind):
    """The job's condition of that type as (is true, reason, message); None where there is none."""
    for each in job.get("status", {}).get("conditions", []):
        if each["type"] == kind:
            return each["status"] == "True", each.get("reason", ""), each.get("message", "")
    return None


def is_true(job, kind):
    found = condition(job, kind)
    return found is not None and found[0]


class JobCase(KubernetesCase):
    """A control plane with our kinds, hollow nodes, and one operator with the chart's rights."""

    tools = (*CONTROL_PLANE_TOOLS, "kwok")
    requirements = (require_operator,)
    nodes, gpus = 2, 4
    operator_flags = ()
    chart_values = ()  # that make a difference to the operator's rights

    @classmethod
    def start_more(cls):
        grant_rights(cls.plane, cls.chart_values)
        cls.hollow = HollowNodes(cls.plane, cls.nodes, cls.gpus)
        cls.operator = cls.make_operator().start()

    @classmethod
    def make_operator(cls):
        return Operator(cls.plane, flags=cls.operator_flags)

    def setUp(self):
        self.namespace = self.make_namespace()
        self.addCleanup(self.remove_jobs)

    def remove_jobs(self):
        """Gives the room back to the next test."""
        try:
            self.admin.delete_all("TrainingJob", self.namespace)
            self.admin.delete_all("Pod", self.namespace, gracePeriodSeconds=0)
        except ApiError as error:
            if error.code != 404:  # the namespace is gone
                raise
        wait_for(lambda: not self.pods(), 60, "the pods of the test to go")

    def create_job(self, name, workers, **options):
        return self.admin.create(training_job(name, workers, **options), self.namespace)

    def job(self, name):
        return self.admin.get("TrainingJob", name, self.namespace)

    def pods(self, job=None):
        labels = f"{JOB_LABEL}={job}" if job else None
        return self.admin.list("Pod", self.namespace, labels=labels)

    def names(self, job):
        return sorted(pod["metadata"]["name"] for pod in self.pods(job))

    def wait_condition(self, name, kind, seconds=60):
        """Waits until the condition is true and returns the job."""

        def reached():
            job = self.job(name)
            return job if is_true(job, kind) else None

        try:
            return wait_for(reached, seconds, f"job {name} to be {kind}")
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.describe(name)}") from None

    def wait_running(self, name, workers, seconds=60):
        """Waits until the job says it runs, and exactly so many of its pods do."""
        self.wait_condition(name, "Running", seconds)

        def all_run():
            pods = self.pods(name)
            return len(pods) == workers and all(map(is_running, pods)) and pods

        return wait_for(all_run, seconds, f"{workers} pods of {name} to run")

    def wait_waiting(self, name, *words, seconds=30):
        """Waits until the job has no place, and says why in these words."""

        def refused():
            found = condition(self.job(name), "Scheduled")
            return found and not found[0] and all(word in found[2] for word in words)

        try:
            wait_for(refused, seconds, f"{name} to wait because of {words}")
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.describe(name)}") from None

    def end_job(self, name):
        """Lets all pods of a job end with success."""
        for pod in self.pods(name):
            self.hollow.end_pod(pod["metadata"]["name"], self.namespace)
        self.wait_condition(name, "Succeeded")

    def events(self, name):
        """(reason, message, count) of the job's events."""
        return [
            (event["reason"], event.get("message", ""), event.get("count", 1))
            for event in self.admin.list("Event", self.namespace)
            if event["involvedObject"]["name"] == name
        ]

    def describe(self, name):
        status = self.job(name).get("status")
        pods = [(pod["metadata"]["name"], pod["spec"].get("nodeName"), pod["status"].get("phase"))
                for pod in self.pods(name)]
        return f"{status}\n{pods}\n{self.operator.program.tail()}"

    def hold(self, check, seconds):
        """Asserts for a while that something stays true."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            check()
            time.sleep(0.1)


def forget_leader(plane):
    """Lets the next operator lead at once, as if the dead one's lease had run out."""
    for lease in plane.admin.list("Lease", NAMESPACE):
        plane.admin.delete("Lease", lease["metadata"]["name"], NAMESPACE)
