"""Gangs that the real kube-scheduler places, all or none, by PodGroups of scheduling.k8s.io."""

import json

import client
from client import Watch
from jobs import JOB_LABEL, JobCase, condition, foreign_pod, is_running, training_job
from kubernetes_case import main
from operator_process import Operator
from processes import wait_for
from proxy import Fault, Proxy
from tools import kubernetes_version

# The versions of scheduling.k8s.io that have PodGroups, the operator's first choice first, and the
# feature gates that they need.
if kubernetes_version() < (1, 37):
    VERSIONS, GATES = ("v1alpha2",), ("GenericWorkload", "GangScheduling")
else:
    VERSIONS, GATES = ("v1beta1", "v1alpha3"), ("GenericWorkload",)


def api(version):
    return f"scheduling.k8s.io/{version}"


def written_in(group):
    """The version of the API in which the operator wrote it."""
    [version] = [each["apiVersion"] for each in group["metadata"]["managedFields"]
                 if each["manager"].startswith("lockstep-operator")]
    return version


client.KINDS["PodGroup"] = (f"/apis/{api(VERSIONS[0])}", "podgroups", True)
NATIVE = {"scheduling": {"binding": "Native"}}
WAIT = 60


class NativeTest(JobCase):
    """Two nodes of four GPUs."""

    options = {"gates": GATES, "apis": tuple(map(api, VERSIONS))}
    operator_flags = ("--native-binding",)
    chart_values = ("nativeBinding.enabled=true",)

    def groups(self):
        return self.admin.list("PodGroup", self.namespace)

    def wait_no_group(self):
        wait_for(lambda: not self.groups(), WAIT, lambda: f"{self.groups()} to go")

    def set_suspended(self, name, is_suspended):
        self.admin.patch("TrainingJob", name,
                         {"spec": {"runPolicy": {"suspend": is_suspended}}}, self.namespace)

    def test_kube_scheduler_places_a_gang_and_the_job_knows_where(self):
        self.create_job("gang", 6, **NATIVE)
        pods = self.wait_running("gang", 6)
        [group] = self.groups()
        self.assertEqual(written_in(group), api(VERSIONS[0]))
        name = group["metadata"]["name"]
        self.assertEqual(group["spec"]["schedulingPolicy"], {"gang": {"minCount": 6}})
        for pod in pods:
            self.assertEqual(pod["spec"]["schedulingGroup"], {"podGroupName": name})
            self.assertNotIn("affinity", pod["spec"])
        # The first pods' nodes are known to the job once it says that all of them run.
        nodes = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}
        status = self.job("gang")["status"]
        self.assertEqual(
            {f"gang-worker-{each['index']}": each["node"] for each in status["placement"]}, nodes)
        self.assertEqual(status["podGroup"], name)
        self.assertEqual([why for why, *_ in self.events("gang") if why == "PodElsewhere"], [])

        # What is left is known, too.
        self.create_job("next", 3)
        self.wait_waiting("next", "needs 3 GPUs, 2 free")
        self.end_job("gang")
        self.wait_no_group()
        self.wait_running("next", 3)

    def test_a_gang_of_which_one_node_takes_nobody_is_placed_not_at_all(self):
        """Only a scheduler knows whom pods of others do not bear beside them."""
        pod = foreign_pod("alone", self.hollow.names[0])
        pod["spec"]["affinity"] = {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "labelSelector": {"matchLabels": {JOB_LABEL: "gang"}},
                "topologyKey": "kubernetes.io/hostname",
            }]}}
        self.admin.create(pod, self.namespace)
        wait_for(lambda: is_running(self.admin.get("Pod", "alone", self.namespace)), 20, "alone")
        watch = Watch(self.admin, "Pod", self.namespace, labels=JOB_LABEL)
        self.addCleanup(watch.close)
        self.create_job("gang", 6, **NATIVE)
        self.wait_waiting("gang", "the gang is rolled back", "is not placed by kube-scheduler",
                          "anti-affinity", seconds=WAIT)
        seen = [pod for _, _, pod in list(watch.events)]
        self.assertGreaterEqual(len({pod["metadata"]["name"] for pod in seen}), 6)
        self.assertEqual([pod["metadata"]["name"] for pod in seen if pod["spec"].get("nodeName")],
                         [], "none had a node at any time")
        self.admin.delete("Pod", "alone", self.namespace, gracePeriodSeconds=0)
        self.wait_running("gang", 6, 2 * WAIT)
        status = self.job("gang")["status"]
        self.assertGreater(status["attempt"], 0)
        self.assertEqual([group["metadata"]["name"] for group in self.groups()],
                         [status["podGroup"]])

    def test_a_lost_pod_has_a_successor_although_another_has_done_its_work(self):
        job = training_job("pair", 2, **NATIVE)
        evaluator = {**job["spec"]["roles"][0], "name": "evaluator", "replicas": 1}
        job["spec"]["roles"].append(evaluator)
        self.admin.create(job, self.namespace)
        self.wait_running("pair", 3)
        self.hollow.end_pod("pair-worker-1", self.namespace)
        wait_for(lambda: self.admin.get("Pod", "pair-worker-1", self.namespace)["status"]["phase"]
                 == "Succeeded", WAIT, "worker 1 to end")
        before = self.admin.get("Pod", "pair-worker-0", self.namespace)["metadata"]["uid"]
        self.hollow.end_pod("pair-evaluator-0", self.namespace, exit_code=137)

        def has_successor():
            pod = self.admin.find("Pod", "pair-evaluator-0-r1", self.namespace)
            return pod and is_running(pod)

        wait_for(has_successor, WAIT, lambda: f"a successor\n{self.describe('pair')}")
        after = self.admin.get("Pod", "pair-worker-0", self.namespace)["metadata"]["uid"]
        self.assertEqual(after, before)
        self.assertEqual(self.job("pair")["status"].get("attempt", 0), 0)

    def test_pods_have_the_groups_priority_whatever_their_templates_say(self):
        """Kubernetes 1.37 places no pod of a group with several priorities."""
        for name, value in (("high", 1000), ("low", 10)):
            self.admin.create({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name}, "value": value,
            })
            self.addCleanup(self.admin.delete, "PriorityClass", name)
        job = training_job("mixed", 2, pod_spec={"priorityClassName": "low"},
                           scheduling={"binding": "Native", "priorityClassName": "high"})
        evaluator = {**job["spec"]["roles"][0], "name": "evaluator", "replicas": 1}
        evaluator["template"] = {"spec": {**evaluator["template"]["spec"]}}
        del evaluator["template"]["spec"]["priorityClassName"]
        job["spec"]["roles"].append(evaluator)
        self.admin.create(job, self.namespace)
        pods = self.wait_running("mixed", 3)
        self.assertEqual({pod["spec"]["priorityClassName"] for pod in pods}, {"high"})
        [group] = self.groups()
        self.assertEqual(group["spec"].get("priorityClassName", "high"), "high")
        _, _, why = condition(self.job("mixed"), "FullyPlanned")
        self.assertIn("spec.roles[0].template.spec.priorityClassName", why)
        self.assertIn("and so do its pods", why)

    def test_no_pod_group_is_left_of_a_job_that_is_suspended_or_deleted(self):
        self.create_job("goes", 2, **NATIVE)
        self.wait_running("goes", 2)
        self.set_suspended("goes", True)
        self.wait_no_group()
        self.set_suspended("goes", False)
        self.wait_running("goes", 2)
        self.admin.delete("TrainingJob", "goes", self.namespace)
        self.wait_no_group()


if len(VERSIONS) > 1:

    class RestartTest(JobCase):
        """API servers are restarted with other versions of the API while the operator runs."""

        options = {"gates": GATES, "apis": tuple(map(api, VERSIONS))}
        changes_plane = True
        operator_flags = ("--native-binding",)
        chart_values = ("nativeBinding.enabled=true",)

        def serve(self, *versions):
            self.plane.kill_api_server()
            self.plane.set_apis(map(api, versions))
            self.plane.start_api_server()

        def writers(self, version):
            """The version in which the operator wrote each PodGroup, read in `version`."""
            path = client.path_of("PodGroup", self.namespace).replace(VERSIONS[0], version)
            return [written_in(group) for group in self.admin.request("GET", path)["items"]]

        def test_operator_speaks_the_version_that_is_served_now(self):
            self.create_job("first", 2, **NATIVE)
            self.wait_running("first", 2)
            self.assertEqual(self.writers(VERSIONS[0]), [api(VERSIONS[0])])
            self.serve(VERSIONS[1])
            self.create_job("second", 2, **NATIVE)
            wait_for(lambda: api(VERSIONS[1]) in self.writers(VERSIONS[1]), 2 * WAIT,
                     lambda: f"a PodGroup in {VERSIONS[1]}\n{self.describe('second')}")
            # kube-scheduler knows the first version alone.
            self.serve(VERSIONS[0])
            self.wait_running("second", 2, 3 * WAIT)
            self.assertEqual(self.job("first")["status"].get("attempt", 0), 0)
            for name in ("first", "second"):
                self.end_job(name)
            wait_for(lambda: not self.admin.list("PodGroup", self.namespace), 2 * WAIT,
                     "both PodGroups to go")


class UnlistedTest(JobCase):
    """An API server that serves PodGroups and cannot list them: one of them is stored in a version
    that it does not know any more."""

    options = {"gates": GATES, "apis": tuple(map(api, VERSIONS))}
    operator_flags = ("--native-binding",)
    chart_values = ("nativeBinding.enabled=true",)

    @classmethod
    def make_operator(cls):
        proxy = Proxy(cls.plane, "operator")
        cls.addClassCleanup(proxy.close)
        answer = {"kind": "Status", "code": 429, "reason": "TooManyRequests",
                  "message": "storage is (re)initializing: failed to read one or more podgroups"}
        refusal = (429, {"Content-Type": "application/json"}, json.dumps(answer).encode())
        proxy.rule = lambda request: (
            Fault(answer=refusal) if "/podgroups" in request.path else None)
        return Operator(cls.plane, kubeconfig=proxy.kubeconfig, flags=cls.operator_flags)

    def test_only_jobs_that_need_them_wait(self):
        self.create_job("native", 8, **NATIVE)
        self.create_job("other", 8)
        self.wait_running("other", 8)
        self.wait_waiting("native", f"serves {api(VERSIONS[0])}, but this operator could not "
                                    "list PodGroups")


class UnservedTest(JobCase):
    """A cluster that knows no PodGroups."""

    operator_flags = ("--native-binding",)
    chart_values = ("nativeBinding.enabled=true",)

    def test_a_job_says_what_is_missing_and_holds_up_nobody(self):
        self.create_job("native", 8, **NATIVE)
        self.wait_waiting("native", "serves PodGroups in none of the versions v1beta1, v1alpha3, "
                                    "v1alpha2",
                          f"{api(VERSIONS[0])}=true", "GenericWorkload")
        self.create_job("other", 8)
        self.wait_running("other", 8)
        self.assertEqual(self.pods("native"), [])


if __name__ == "__main__":
    main()
