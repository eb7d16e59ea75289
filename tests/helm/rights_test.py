"""The real operator with the rights of the chart and no others: enough, and each is used."""

import json
import signal

from helm import CHART, helm
from control_plane import CONTROL_PLANE_TOOLS
from hollow_nodes import HollowNodes
from kubernetes_case import KubernetesCase, main
from operator_process import NAMESPACE, require_operator
from tools import BIN

JOB = {
    "apiVersion": "lockstep.dev/v1",
    "kind": "TrainingJob",
    "metadata": {"name": "pair"},
    "spec": {
        "strategy": "None",
        "roles": [{
            "name": "worker",
            "replicas": 2,
            "restartPolicy": "OnFailure",
            "template": {
                "spec": {"containers": [{"name": "main", "image": "x", "command": ["x"]}]},
            },
        }],
        "runPolicy": {"ttlSecondsAfterFinished": 1},
    },
}
READS = {"get", "list", "watch"}


class RightsTest(KubernetesCase):
    options = {"audit": True}
    tools = (*CONTROL_PLANE_TOOLS, "helm", "kwok")
    requirements = (require_operator,)

    @classmethod
    def start_more(cls):
        cls.nodes = HollowNodes(cls.plane, count=2)
        cls.home = cls.plane.folder / "helm"
        cls.home.mkdir()
        values = ["--set", "replicas=0,crds.install=false"]  # the operator below is no pod
        code, _, errors = helm(
            cls.home, "install", "lockstep", CHART, "--namespace", NAMESPACE, "--create-namespace",
            *values, kubeconfig=cls.plane.kubeconfig(),
        )
        assert code == 0, errors
        cls.user = f"system:serviceaccount:{NAMESPACE}:lockstep"
        cls.operator = cls.plane.run(
            "lockstep-operator", BIN / "lockstep-operator", "--kubeconfig", cls.kubeconfig(),
            "--lease-namespace", NAMESPACE, "--lease-name", "lockstep",
            "--key-secret", "lockstep-key", "--runtime-image", "none", "--log-level", "debug",
            "--metrics-address", f"{cls.plane.local_address}:8080",
        )

    @classmethod
    def kubeconfig(cls):
        """That of the chart's service account."""
        token = cls.plane.kubectl("create", "token", "lockstep", "-n", NAMESPACE).strip()
        cls.plane.credentials.tokens["lockstep"] = token
        return cls.plane.kubeconfig("lockstep")

    def pods(self, namespace):
        return {pod["metadata"]["name"]: pod for pod in self.admin.list("Pod", namespace)}

    def wait_running(self, namespace, *names):
        def all_run():
            pods = self.pods(namespace)
            return all(pods.get(name, {}).get("status", {}).get("phase") == "Running"
                       for name in names)

        self.wait_for(all_run, 60, f"{names} to run")

    def live_a_whole_life(self, namespace):
        """Made, its service and a pod's labels spoiled, a worker lost and the gang started again,
        ended, removed by its time to live."""
        self.admin.create(JOB, namespace)
        self.wait_running(namespace, "pair-worker-0", "pair-worker-1")
        spoiled = {"spec": {"publishNotReadyAddresses": False}}
        self.admin.patch("Service", "pair", spoiled, namespace)

        def is_mended():
            service = self.admin.get("Service", "pair", namespace)
            return service["spec"].get("publishNotReadyAddresses")

        self.wait_for(is_mended, 60, "the service as it was")
        stripped = {"metadata": {"labels": {"lockstep.dev/job": None}}}
        self.admin.patch("Pod", "pair-worker-1", stripped, namespace)

        def has_label():
            labels = self.pods(namespace)["pair-worker-1"]["metadata"]["labels"]
            return labels.get("lockstep.dev/job") == "pair"

        self.wait_for(has_label, 60, "the pod's label")
        self.nodes.end_pod("pair-worker-1", namespace, exit_code=137)
        again = ("pair-worker-0-a1", "pair-worker-1-a1")
        self.wait_running(namespace, *again)
        for name in again:
            self.nodes.end_pod(name, namespace)
        self.wait_for(lambda: self.admin.find("TrainingJob", "pair", namespace) is None, 60,
                      "the job's time to live")

    def report_a_queue(self):
        self.admin.create({"apiVersion": "lockstep.dev/v1", "kind": "TrainingQueue",
                           "metadata": {"name": "vision"},
                           "spec": {"nominal": {"nvidia.com/gpu": 2}}})
        self.addCleanup(self.admin.delete, "TrainingQueue", "vision")
        self.wait_for(lambda: self.admin.get("TrainingQueue", "vision").get("status"), 60,
                      "how the queue stands")

    def rules(self):
        roles = [self.admin.get("Role", "lockstep", NAMESPACE),
                 self.admin.get("ClusterRole", f"lockstep:{NAMESPACE}")]
        return {
            (verb, group, resource)
            for role in roles for rule in role["rules"]
            for verb in rule["verbs"] for group in rule.get("apiGroups", [])
            for resource in rule.get("resources", [])
        }

    def writes(self):
        """(verb, group, resource) of what the operator wrote, and what it was refused for want of
        a right."""
        written, forbidden = set(), []
        for event in self.plane.audit_events():
            if event["user"]["username"] != self.user:
                continue
            target = event["objectRef"]
            resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
            written.add((event["verb"], target.get("apiGroup", ""), resource))
            if event["responseStatus"]["code"] == 403:
                forbidden.append(json.dumps(target))
        return written, forbidden

    def test_the_rights_are_enough_and_each_is_used(self):
        namespace = self.make_namespace()
        self.live_a_whole_life(namespace)
        self.report_a_queue()
        self.operator.signal(signal.SIGTERM)  # gives the lease up
        self.assertEqual(self.operator.exit_code(), 0)
        written, forbidden = self.writes()
        self.assertEqual(forbidden, [])
        allowed = {rule for rule in self.rules() if rule[0] not in READS}
        # Asked of the writer of an owner reference, where the cluster has that check switched on.
        allowed.discard(("update", "lockstep.dev", "trainingjobs/finalizers"))
        # An Event is patched when the same happens again.
        allowed.discard(("patch", "", "events"))
        self.assertEqual(allowed, written - {("patch", "", "events")})


if __name__ == "__main__":
    main()
