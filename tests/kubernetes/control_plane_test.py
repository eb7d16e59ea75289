"""The control plane of our tests is a real one: what the other tests rely on, one by one."""

import pathlib
import signal
import subprocess
import sys
import unittest

from client import ApiError, Watch
from control_plane import ControlPlane
from hollow_nodes import make_nodes
from kubernetes_case import KubernetesCase, main
from processes import WaitedInVain, wait_for
from tools import REPOSITORY, require_tools

WIDGETS = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.lockstep.dev}
spec:
  group: test.lockstep.dev
  names: {kind: Widget, plural: widgets, singular: widget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - {rule: "self.low <= self.high", message: "low is above high"}
            properties:
              low: {type: integer, default: 1}
              high: {type: integer}
"""


def pod(name, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "none"}], **spec},
    }


class ControlPlaneTest(KubernetesCase):
    options = {"crds": [], "audit": True}
    changes_plane = True

    def test_stores_and_returns_what_was_created(self):
        namespace = self.make_namespace()
        sheet = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
        created = self.admin.create({**sheet, "data": {"key": "value"}}, namespace)
        self.assertEqual(self.admin.get("ConfigMap", "one", namespace), created)
        self.assertIsNone(self.admin.find("ConfigMap", "two", namespace))

    def test_reset_takes_away_what_a_class_of_tests_has_left_and_nothing_else(self):
        namespace = self.make_namespace()
        self.admin.create(pod("before"), namespace)
        state = self.plane.state()
        left = self.plane.run("left", "sleep", "1000")
        make_nodes(self.admin, ["left"])
        self.admin.create(pod("left", nodeName="left"), namespace)
        for kind, api, more in (
                ("Secret", "v1", {}), ("PriorityClass", "scheduling.k8s.io/v1", {"value": 1}),
                ("Role", "rbac.authorization.k8s.io/v1", {}),
                ("ClusterRole", "rbac.authorization.k8s.io/v1", {})):
            self.admin.create(
                {"apiVersion": api, "kind": kind, "metadata": {"name": "left"}, **more}, namespace)
        self.plane.apply(REPOSITORY / "crds" / "lockstep.dev_trainingqueues.yaml")
        self.assertNotEqual(self.plane.state(), state)
        self.plane.reset(state)
        self.assertEqual(self.plane.state(), state)
        self.assertFalse(left.is_running())

    def test_says_why_a_pod_cannot_run(self):
        namespace = self.make_namespace()
        self.admin.create(pod("one"), namespace)

        def refusal():
            conditions = self.admin.get("Pod", "one", namespace)["status"].get("conditions", [])
            return [each["message"] for each in conditions if each["type"] == "PodScheduled"]

        message = wait_for(refusal, 30, "the scheduler's word")[0]
        self.assertIn("no nodes available", message)

    def test_operator_has_no_rights_unless_given(self):
        namespace = self.make_namespace()
        operator = self.plane.client("operator")
        with self.assertRaises(ApiError) as refused:
            operator.list("Pod", namespace)
        self.assertEqual(refused.exception.code, 403)
        self.plane.kubectl(
            "create", "rolebinding", "view", "-n", namespace, "--clusterrole=view",
            "--user=operator",
        )
        wait_for(lambda: _may_list_pods(operator, namespace), 10, "the right to list pods")

    def test_deletes_what_an_owner_owned(self):
        namespace = self.make_namespace()
        owner = self.admin.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}, namespace
        )
        owned = pod("owned")
        owned["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
             "uid": owner["metadata"]["uid"]}
        ]
        self.admin.create(owned, namespace)
        self.admin.delete("ConfigMap", "owner", namespace)
        wait_for(lambda: not self.admin.find("Pod", "owned", namespace), 30, "the owned pod to go")

    def test_checks_custom_resources_by_their_rules(self):
        self.plane.kubectl("apply", "-f", "-", input=WIDGETS)
        self.plane.wait_for_kinds()
        document = "{apiVersion: test.lockstep.dev/v1, kind: Widget, metadata: {name: w}, spec: %s}"

        def create():
            return self.plane.kubectl(
                "create", "-f", "-", input=document % "{high: 2}", check=False
            )[0] == 0

        wait_for(create, 10, "the new kind to be served")
        code, output = self.plane.kubectl(
            "create", "-f", "-", input=document % "{high: 0}", check=False
        )
        self.assertEqual(code, 1)
        self.assertIn("low is above high", output)

    def test_watch_sees_events_in_order(self):
        namespace = self.make_namespace()
        watch = Watch(self.admin, "Pod", namespace)
        self.addCleanup(watch.close)
        self.admin.create(pod("one"), namespace)
        self.admin.delete("Pod", "one", namespace, gracePeriodSeconds=0)
        wait_for(lambda: any(kind == "DELETED" for _, kind, _ in watch.events), 10, "the deletion")
        kinds = [kind for _, kind, _ in watch.events]
        self.assertEqual((kinds[0], kinds[-1]), ("ADDED", "DELETED"))

    def test_records_who_wrote_what(self):
        namespace = self.make_namespace()
        self.admin.create(pod("one"), namespace)
        writes = [
            (event["user"]["username"], event["verb"])
            for event in self.plane.audit_events()
            if event["objectRef"].get("namespace") == namespace
            and event["objectRef"].get("name") == "one"
            and event["objectRef"]["resource"] == "pods"
        ]
        self.assertIn(("admin", "create"), writes)

    def test_old_versions_are_gone_after_a_restart(self):
        namespace = self.make_namespace()
        version = self.admin.create(pod("one"), namespace)["metadata"]["resourceVersion"]
        self.admin.create(pod("two"), namespace)
        self.plane.compact_history()
        self.plane.restart_api_server()
        self.assertIsNotNone(self.admin.find("Pod", "one", namespace))
        answer = self.admin.request(
            "GET", "/api/v1/pods", query={"watch": "true", "resourceVersion": version,
                                          "timeoutSeconds": "5"},
        )
        self.assertEqual(answer["object"]["code"], 410)


class LeavesNothingTest(unittest.TestCase):
    """Whatever ends a test, its control plane ends too, and its folder is gone."""

    SCRIPT = """\
import sys, time
sys.path.insert(0, {folder!r})
from control_plane import ControlPlane
from kubernetes_case import *
signal.signal(signal.SIGTERM, signal.default_int_handler)


class EtcdAlone(ControlPlane):  # all programs end in the same way, and this one is soon there
    def start_api_server(self):
        pass

    def _install_crds(self):
        pass


plane = EtcdAlone(controllers=False)
plane.start()
pids = [each.pid for each in plane._programs.values()]
print(plane.folder, *pids, flush=True)
{end}
"""

    def start(self, end):
        require_tools("etcd")
        folder = str(pathlib.Path(__file__).parent)
        process = subprocess.Popen(
            [sys.executable, "-B", "-c", self.SCRIPT.format(folder=folder, end=end)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        folder, *pids = process.stdout.readline().split()
        self.assertEqual(len(pids), 1)
        return process, pathlib.Path(folder), pids

    def assert_ended(self, pids):
        wait_for(lambda: not any(map(_is_alive, pids)), 10, "all processes to end")

    def test_after_an_exception(self):
        process, folder, pids = self.start("raise ValueError")
        self.assertEqual(process.wait(timeout=30), 1)
        self.assert_ended(pids)
        self.assertFalse(folder.exists())

    def test_after_a_polite_end(self):
        process, folder, pids = self.start("time.sleep(60)")
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        self.assert_ended(pids)
        self.assertFalse(folder.exists())

    def test_after_being_killed(self):
        process, folder, pids = self.start("time.sleep(60)")
        process.kill()
        process.wait(timeout=30)
        self.assert_ended(pids)
        # Nobody is left to remove the files; that is this test's job.
        subprocess.run(["rm", "-rf", str(folder)], check=True)

    def test_a_failed_start_shows_the_log(self):
        require_tools("kube-apiserver")
        plane = ControlPlane(crds=[], node_grace="no number")
        with self.assertRaises(WaitedInVain) as failure:
            plane.start()
        self.assertIn("kube-controller-manager ended", str(failure.exception))
        self.assertIn("no number", str(failure.exception))
        self.assertFalse(plane.folder.exists())


def _may_list_pods(client, namespace):
    try:
        client.list("Pod", namespace)
        return True
    except ApiError:
        return False


def _is_alive(pid):
    """Whether it runs; one that has ended stays a zombie until somebody asks for its exit code."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


if __name__ == "__main__":
    main()
