"""TrainingJobs in the queues of a real Kueue, which knows nothing of us."""

from hollow_nodes import GPU
from jobs import JobCase, condition
from kubernetes_case import main
from kueue import API, LABEL, Kueue


class KueuePeerTest(JobCase):
    nodes, gpus = 2, 4
    operator_flags = ("--kueue",)
    chart_values = ("kueue.enabled=true",)

    @classmethod
    def start_more(cls):
        cls.kueue = Kueue(cls.plane)
        super().start_more()
        cls.admin.patch("Node", cls.admin.list("Node")[1]["metadata"]["name"],
                        {"metadata": {"labels": {"pool": "spot"}}})

    def make_queue(self, gpus, flavor="plain", preemption=None, **labels):
        """A cluster queue with so many GPUs of one flavor, and a queue of this namespace on it."""
        name = f"{self.namespace[:40]}-{flavor}".strip("-")
        self.admin.create({"apiVersion": API, "kind": "ResourceFlavor",
                           "metadata": {"name": name}, "spec": {"nodeLabels": labels}})
        self.admin.create({
            "apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": name},
            "spec": {
                "namespaceSelector": {},
                "preemption": preemption or {},
                "resourceGroups": [{"coveredResources": [GPU], "flavors": [
                    {"name": name, "resources": [{"name": GPU, "nominalQuota": gpus}]}]}],
            }})
        self.admin.create({"apiVersion": API, "kind": "LocalQueue", "metadata": {"name": "team-a"},
                           "spec": {"clusterQueue": name}}, self.namespace)

    def create_queued(self, name, workers, **options):
        return self.create_job(name, workers, labels={LABEL: "team-a"}, **options)

    def workload_of(self, job):
        return [each for each in self.admin.list("Workload", self.namespace)
                if each["metadata"]["ownerReferences"][0]["name"] == job][0]

    def workload_says(self, job, kind):
        for each in self.workload_of(job).get("status", {}).get("conditions", []):
            if each["type"] == kind:
                return each["status"], each["reason"]
        return None

    def test_the_second_job_waits_with_a_sentence_and_starts_when_the_first_ends(self):
        self.make_queue(2)
        self.create_queued("first", 2)
        self.wait_running("first", 2)
        self.create_queued("second", 2)
        self.wait_waiting("second", "waits in Kueue's queue team-a: ", "insufficient unused quota")
        self.assertEqual(self.pods("second"), [])
        self.assertEqual(condition(self.job("second"), "Scheduled")[1], "WaitsForKueue")

        self.end_job("first")
        self.wait_running("second", 2)
        self.assertEqual(self.workload_says("first", "Finished"), ("True", "Succeeded"))
        self.wait_for(lambda: self.workload_says("second", "PodsReady") == ("True", "Started"), 30,
                      "Kueue to hear that the second runs")

    def test_one_of_higher_priority_has_another_go_which_comes_back_afterwards(self):
        self.admin.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                           "metadata": {"name": "urgent"}, "value": 1000})
        self.make_queue(2, preemption={"withinClusterQueue": "LowerPriority"})
        self.create_queued("low", 2)
        self.wait_running("low", 2)
        self.create_queued("high", 2, scheduling={"priorityClassName": "urgent"})
        self.wait_running("high", 2)
        self.assertEqual(self.pods("low"), [])
        self.wait_waiting("low", "waits in Kueue's queue team-a")
        self.assertEqual(self.job("low")["status"]["restartCount"], 0)
        self.assertEqual(self.job("low")["status"]["preemptions"], 1)

        self.end_job("high")
        self.wait_running("low", 2)

    def test_pods_stand_on_nodes_of_the_flavor(self):
        self.make_queue(4, "spot", pool="spot")
        self.create_queued("picky", 2)
        spot = self.admin.list("Node")[1]["metadata"]["name"]
        for pod in self.wait_running("picky", 2):
            self.assertEqual(pod["spec"]["nodeName"], spot)

    def test_a_job_that_becomes_larger_asks_for_its_quota_anew(self):
        self.make_queue(3)
        self.create_queued("grows", 2)
        self.wait_running("grows", 2)
        self.admin.patch("TrainingJob", "grows", {"spec": {"replicas": 4}}, self.namespace)
        self.wait_waiting("grows", "waits in Kueue's queue team-a: ", "insufficient", seconds=60)
        self.admin.patch("TrainingJob", "grows", {"spec": {"replicas": 3}}, self.namespace)
        self.wait_running("grows", 3)

    def test_a_workload_that_is_deactivated_stops_its_job(self):
        self.make_queue(2)
        self.create_queued("stopped", 2)
        self.wait_running("stopped", 2)
        name = self.workload_of("stopped")["metadata"]["name"]
        self.admin.patch("Workload", name, {"spec": {"active": False}}, self.namespace)
        self.wait_waiting("stopped", "deactivated")
        self.wait_for(lambda: not self.pods("stopped"), 30, "its pods to go")
        self.admin.patch("Workload", name, {"spec": {"active": True}}, self.namespace)
        self.wait_running("stopped", 2)


if __name__ == "__main__":
    main()
