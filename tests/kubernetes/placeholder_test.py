"""Jobs that show themselves to cluster autoscalers by pods that nobody binds. The scheduler is the
real one, and the kind ProvisioningRequest is not installed; karpenter_peer_test.py has a real
autoscaler."""

from hollow_nodes import GPU
from jobs import JobCase, condition, foreign_pod
from kubernetes_case import main

LABEL = "lockstep.dev/placeholder-of"
SCHEDULER = "placeholder.lockstep.dev"
WAIT = 120


def is_unschedulable(pod):
    """By all that autoscalers look at."""
    return not pod["spec"].get("nodeName") and any(
        each["type"] == "PodScheduled" and each["status"] == "False"
        and each["reason"] == "Unschedulable" for each in pod["status"].get("conditions", []))


class PlaceholderTest(JobCase):
    nodes, gpus = 1, 2
    operator_flags = ("--placeholder-pods",)
    chart_values = ("placeholderPods.enabled=true",)

    def gpus_there(self):
        return sum(int(node["status"]["allocatable"].get(GPU, 0))
                   for node in self.admin.list("Node"))

    def create_waiting(self, name, missing=2):
        """A job that lacks so many GPUs; how many workers it has."""
        workers = self.gpus_there() + missing
        self.create_job(name, workers, scheduling={"provisioning": "Pods"})
        return workers

    def placeholders(self, job):
        return self.admin.list("Pod", self.namespace, labels=f"{LABEL}={job}")

    def wait_shown(self, job, count):
        def all_shown():
            pods = self.placeholders(job)
            return pods if len(pods) == count and all(map(is_unschedulable, pods)) else None
        return self.wait_for(all_shown, WAIT, f"{count} placeholders of {job} to be seen")

    def wait_none_left(self, job):
        self.wait_for(lambda: not self.placeholders(job), WAIT, f"the placeholders of {job} to go")

    def test_a_gang_without_room_is_seen_pod_by_pod_until_there_are_nodes(self):
        workers = self.create_waiting("grows")
        for pod in self.wait_shown("grows", workers):
            self.assertEqual(pod["spec"]["schedulerName"], SCHEDULER)
            self.assertEqual(pod["spec"]["containers"][0]["resources"]["requests"], {GPU: "1"})
            self.assertIn("TrainingJob grows waits", pod["status"]["conditions"][0]["message"])
        self.wait_waiting("grows", f"{workers} placeholder pods (label {LABEL}=grows)")

        # There is room for some of them, and the scheduler is at work: it never binds one.
        self.admin.create(foreign_pod("stranger"), self.namespace)
        self.wait_for(lambda: self.admin.get("Pod", "stranger", self.namespace)["spec"]
                      .get("nodeName"), WAIT, "the scheduler to bind a stranger")
        self.admin.delete("Pod", "stranger", self.namespace, gracePeriodSeconds=0)
        self.hollow.add(1, gpus=1)  # too few
        self.hold(lambda: self.assertTrue(
            all(map(is_unschedulable, self.placeholders("grows")))), 3)
        self.assertEqual(len(self.placeholders("grows")), workers)
        self.assertEqual(self.pods("grows"), [])

        self.hollow.add(1, gpus=1)
        self.wait_running("grows", workers, seconds=WAIT)
        self.wait_none_left("grows")
        self.assertEqual(self.job("grows")["status"].get("rollbacks", 0), 0)

    def test_no_placeholder_outlives_its_wait(self):
        workers = self.create_waiting("waits")
        first = {pod["metadata"]["uid"] for pod in self.wait_shown("waits", workers)}
        self.admin.patch("TrainingJob", "waits", {"spec": {"runPolicy": {"suspend": True}}},
                         self.namespace)
        self.wait_none_left("waits")
        self.admin.patch("TrainingJob", "waits", {"spec": {"runPolicy": {"suspend": False}}},
                         self.namespace)
        again = self.wait_shown("waits", workers)
        self.assertFalse(first & {pod["metadata"]["uid"] for pod in again})
        self.admin.delete("Pod", again[0]["metadata"]["name"], self.namespace)
        self.wait_for(lambda: again[0]["metadata"]["uid"] not in
                      {pod["metadata"]["uid"] for pod in self.wait_shown("waits", workers)}, WAIT,
                      "one that somebody deleted to come back")
        self.admin.delete("TrainingJob", "waits", self.namespace)
        self.wait_none_left("waits")

    def test_a_quota_that_refuses_one_is_told_of_and_no_nodes_are_asked_for(self):
        self.limit_pods(self.gpus_there() + 1)
        workers = self.create_waiting("refused")
        self.wait_waiting("refused", "placeholder was refused: ", "exceeded quota", seconds=WAIT)
        self.wait_none_left("refused")
        self.admin.delete("ResourceQuota", "pods", self.namespace)
        self.wait_shown("refused", workers)

    def test_a_quota_that_holds_the_gang_alone_lets_it_start(self):
        workers = self.gpus_there() + 2
        self.limit_pods(workers)
        self.create_waiting("fits")
        self.wait_shown("fits", workers)
        self.hollow.add(1, gpus=2)
        self.wait_running("fits", workers, seconds=WAIT)
        self.wait_none_left("fits")
        self.assertTrue(condition(self.job("fits"), "Scheduled")[0])

    def limit_pods(self, count):
        self.admin.create({"apiVersion": "v1", "kind": "ResourceQuota",
                           "metadata": {"name": "pods"},
                           "spec": {"hard": {"pods": str(count)}}}, self.namespace)
        self.wait_for(lambda: self.admin.get("ResourceQuota", "pods", self.namespace)
                      .get("status", {}).get("hard"), WAIT, "the quota to count")


if __name__ == "__main__":
    main()
