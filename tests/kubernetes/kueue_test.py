"""Jobs with Kueue's label, and a hand in place of Kueue's controller: what the operator asks of it,
and what it makes of its answers. kueue_peer_test.py has the real one."""

import time

import client
from hollow_nodes import GPU
from jobs import JobCase, condition
from kubernetes_case import main

API = "kueue.x-k8s.io/v1beta2"
LABEL = "kueue.x-k8s.io/queue-name"
client.KINDS["Workload"] = (f"/apis/{API}", "workloads", True)
client.KINDS["ResourceFlavor"] = (f"/apis/{API}", "resourceflavors", False)


def definition(kind, plural, scope):
    """As much of Kueue's as an API server needs to keep such objects."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.kueue.x-k8s.io", "annotations": {
            "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/kueue"}},
        "spec": {"group": "kueue.x-k8s.io", "scope": scope,
                 "names": {"kind": kind, "plural": plural},
                 "versions": [{"name": "v1beta2", "served": True, "storage": True,
                               "subresources": {"status": {}},
                               "schema": {"openAPIV3Schema": schema}}]},
    }


def install_definitions(admin):
    admin.create(definition("Workload", "workloads", "Namespaced"))
    admin.create(definition("ResourceFlavor", "resourceflavors", "Cluster"))


def workload_condition(kind, status, message=""):
    return {"type": kind, "status": status, "reason": "Preempted", "message": message,
            "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


class KueueTest(JobCase):
    nodes, gpus = 2, 4
    operator_flags = ("--kueue",)
    chart_values = ("kueue.enabled=true",)

    @classmethod
    def start_more(cls):
        install_definitions(cls.admin)
        super().start_more()

    def create_queued(self, name, workers, **options):
        return self.create_job(name, workers, labels={LABEL: "team-a"}, **options)

    def workload(self, job):
        """The Workload of the job, once there is one."""
        def found():
            return [each for each in self.admin.list("Workload", self.namespace)
                    if each["metadata"]["ownerReferences"][0]["name"] == job]
        return self.wait_for(found, 30, f"the Workload of {job}")[0]

    def patch(self, workload, status):
        self.admin.patch("Workload", workload["metadata"]["name"], {"status": status},
                         self.namespace, subresource="status")

    def admit(self, job, flavor="plain", **assignment):
        self.patch(self.workload(job), {
            "admission": {"clusterQueue": "gpus", "podSetAssignments": [
                {"name": "worker", "flavors": {GPU: flavor}, **assignment}]},
            "conditions": [workload_condition("QuotaReserved", "True"),
                           workload_condition("Admitted", "True")]})

    def make_flavor(self, name, **spec):
        self.admin.create({"apiVersion": API, "kind": "ResourceFlavor",
                           "metadata": {"name": name}, "spec": spec})
        self.addCleanup(self.admin.delete, "ResourceFlavor", name)

    def wait_workload_condition(self, job, kind, status):
        def reached():
            for each in self.workload(job).get("status", {}).get("conditions", []):
                if (each["type"], each["status"]) == (kind, status):
                    return each
            return None
        return self.wait_for(reached, 30, f"{kind} of {job} to be {status}")

    def test_a_job_waits_without_pods_until_it_is_admitted_and_says_when_it_runs_and_ends(self):
        self.make_flavor("plain")
        self.create_queued("first", 2)
        workload = self.workload("first")
        self.assertEqual(workload["spec"]["queueName"], "team-a")
        [pod_set] = workload["spec"]["podSets"]
        self.assertEqual((pod_set["name"], pod_set["count"]), ("worker", 2))
        [container] = pod_set["template"]["spec"]["containers"]
        self.assertEqual(container["resources"]["requests"][GPU], "1")
        self.patch(workload, {"conditions": [
            workload_condition("QuotaReserved", "False", "no quota for two GPUs")]})
        self.wait_waiting("first", "waits in Kueue's queue team-a: no quota for two GPUs")
        self.assertEqual(self.pods("first"), [])

        self.admit("first")
        self.wait_running("first", 2)
        self.wait_workload_condition("first", "PodsReady", "True")
        self.end_job("first")
        self.assertEqual(
            self.wait_workload_condition("first", "Finished", "True")["reason"], "Succeeded")

    def test_pods_go_where_the_flavor_is(self):
        node = self.admin.list("Node")[1]["metadata"]["name"]
        self.admin.patch("Node", node, {"metadata": {"labels": {"pool": "spot"}}})
        self.make_flavor("spot", nodeLabels={"pool": "spot"})
        self.create_queued("picky", 2)
        self.admit("picky", "spot")
        for pod in self.wait_running("picky", 2):
            self.assertEqual(pod["spec"]["nodeName"], node)
            self.assertEqual(pod["spec"]["nodeSelector"]["pool"], "spot")

    def test_an_evicted_job_gives_its_quota_back_when_its_pods_are_gone_and_comes_again(self):
        self.make_flavor("plain")
        self.create_queued("victim", 2)
        self.admit("victim")
        self.wait_running("victim", 2)
        conditions = self.workload("victim")["status"]["conditions"]
        self.patch(self.workload("victim"), {"conditions": [
            *conditions, workload_condition("Evicted", "True", "for one of priority 1000")]})
        self.wait_workload_condition("victim", "QuotaReserved", "False")
        self.assertEqual(self.pods("victim"), [])
        workload = self.workload("victim")
        self.assertNotIn("admission", workload["status"])
        self.wait_waiting("victim", "for one of priority 1000")

        self.admit("victim")
        self.wait_running("victim", 2)
        self.assertEqual(self.job("victim")["status"]["restartCount"], 0)

    def test_suspend_takes_the_workload_away_and_resume_asks_anew(self):
        self.make_flavor("plain")
        self.create_queued("pauses", 1)
        self.admit("pauses")
        self.wait_running("pauses", 1)
        before = self.workload("pauses")["metadata"]["uid"]
        policy = {"spec": {"runPolicy": {"suspend": True}}}
        self.admin.patch("TrainingJob", "pauses", policy, self.namespace)
        self.wait_for(lambda: not self.admin.list("Workload", self.namespace), 30,
                      "the Workload to go")
        self.assertEqual(self.pods("pauses"), [])
        policy["spec"]["runPolicy"]["suspend"] = False
        self.admin.patch("TrainingJob", "pauses", policy, self.namespace)
        self.assertNotEqual(self.workload("pauses")["metadata"]["uid"], before)
        self.assertEqual(self.pods("pauses"), [])

    def test_a_job_without_the_label_asks_nobody(self):
        self.create_job("free", 1)
        self.wait_running("free", 1)
        self.assertEqual(self.admin.list("Workload", self.namespace), [])

    def test_a_deleted_job_takes_its_workload_along(self):
        self.create_queued("gone", 1)
        self.workload("gone")
        self.admin.delete("TrainingJob", "gone", self.namespace)
        self.wait_for(lambda: not self.admin.list("Workload", self.namespace), 30,
                      "the Workload to go")


class WithoutKueueTest(JobCase):
    """An operator that was told of Kueue before it was there, and jobs that were too."""

    nodes, gpus = 1, 4
    operator_flags = ("--kueue",)
    chart_values = ("kueue.enabled=true",)

    def test_the_label_is_answered_with_what_is_missing_until_it_is_there(self):
        self.create_job("early", 1, labels={LABEL: "team-a"})
        self.wait_waiting("early", "does not watch Workloads of kueue.x-k8s.io/v1beta2")
        self.assertEqual(condition(self.job("early"), "Scheduled")[1], "KueueNotFollowed")
        self.create_job("free", 1)
        self.wait_running("free", 1)
        install_definitions(self.admin)
        self.wait_waiting("early", "Kueue has not answered yet", seconds=90)


if __name__ == "__main__":
    main()
