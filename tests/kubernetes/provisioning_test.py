"""Jobs that ask for nodes, and a hand in place of the cluster's autoscaler."""

import pathlib
import time

import client
from jobs import JobCase
from kubernetes_case import main
from processes import wait_for

DEFINITION = pathlib.Path(__file__).with_name("provisioning_requests.yaml")
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
CHECK = "check-capacity.autoscaling.x-k8s.io"
SCALE_UP = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
WAIT = 120
client.KINDS["PodTemplate"] = ("/api/v1", "podtemplates", True)
client.KINDS["ProvisioningRequest"] = (
    "/apis/autoscaling.x-k8s.io/v1", "provisioningrequests", True)


class ProvisioningTest(JobCase):
    nodes, gpus = 1, 2
    operator_flags = ("--provisioning",)
    chart_values = ("provisioning.enabled=true",)

    @classmethod
    def start_more(cls):
        cls.plane.apply(DEFINITION)
        cls.plane.wait_for_kinds()
        wait_for(cls.is_served, WAIT, "ProvisioningRequests to be served")
        super().start_more()

    @classmethod
    def is_served(cls):
        """A kind that was accepted a moment ago may be answered with 429 still."""
        try:
            return cls.admin.list("ProvisioningRequest", "default") == []
        except client.ApiError:
            return False

    def create_asking(self, name, workers):
        self.create_job(name, workers, scheduling={"provisioning": "ProvisioningRequest"})

    def objects(self, kind):
        return self.admin.list(kind, self.namespace)

    def wait_request(self, class_name):
        """The one request there is, once it is of that class."""
        def found():
            requests = self.objects("ProvisioningRequest")
            classes = [each["spec"]["provisioningClassName"] for each in requests]
            return requests if classes == [class_name] else None
        return self.wait_for(found, WAIT, f"a request of class {class_name}")[0]

    def wait_other_request(self, request):
        """The one that is asked by when that one is not any more."""
        return self.wait_for(
            lambda: next((each for each in self.objects("ProvisioningRequest")
                          if each["metadata"]["name"] != request["metadata"]["name"]), None),
            WAIT, "another request")

    def answer(self, request, kind, reason, message):
        self.admin.patch("ProvisioningRequest", request["metadata"]["name"], {"status": {
            "conditions": [{"type": kind, "status": "True", "reason": reason, "message": message,
                            "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ",
                                                                time.gmtime())}]}},
                         self.namespace, subresource="status")

    def wait_nothing_left(self):
        self.wait_for(lambda: not self.objects("ProvisioningRequest")
                      and not self.objects("PodTemplate"), WAIT, "all that was asked with to go")

    def test_a_gang_without_room_asks_until_there_are_nodes_and_nothing_is_left_over(self):
        self.create_asking("grows", 4)
        check = self.wait_request(CHECK)
        [pod_set] = check["spec"]["podSets"]
        self.assertEqual(pod_set["count"], 4)
        names = [each["metadata"]["name"] for each in self.objects("PodTemplate")]
        self.assertIn(pod_set["podTemplateRef"]["name"], names)
        self.assertEqual(self.pods("grows"), [])

        self.answer(check, "Failed", "CapacityIsNotFound", "CA could not find it")
        scale_up = self.wait_request(SCALE_UP)
        self.answer(scale_up, "Provisioned", "CapacityIsProvisioned", "two GPUs are on their way")
        self.wait_waiting("grows", "two GPUs are on their way", seconds=WAIT)

        self.hollow.add(1, gpus=2)
        for pod in self.wait_running("grows", 4, seconds=WAIT):
            self.assertEqual(pod["metadata"]["annotations"][CONSUMES],
                             scale_up["metadata"]["name"])
        self.wait_nothing_left()

        self.create_asking("goes", 4)
        self.wait_request(CHECK)
        self.admin.delete("TrainingJob", "goes", self.namespace)
        self.wait_nothing_left()

    def test_what_somebody_has_changed_of_an_ask_is_not_heeded_and_is_asked_anew(self):
        self.create_asking("edited", 9)
        first = self.wait_request(CHECK)
        [template] = self.objects("PodTemplate")
        self.admin.patch("PodTemplate", template["metadata"]["name"], {"template": {"spec": {
            "nodeSelector": {"pool": "mine"}}}}, self.namespace)
        self.wait_waiting("edited", f"PodTemplate {template['metadata']['name']} was edited",
                          seconds=WAIT)
        second = self.wait_other_request(first)

        # The API server lets nobody change a request; another may be put in its place.
        mine = {key: second[key] for key in ("apiVersion", "kind", "spec")}
        mine["metadata"] = {key: second["metadata"][key] for key in (
            "name", "labels", "annotations", "ownerReferences")}
        mine["spec"]["podSets"][0]["count"] = 1
        self.operator.pause()  # else it makes its own again first
        self.admin.delete("ProvisioningRequest", second["metadata"]["name"], self.namespace)
        self.admin.create(mine, self.namespace)
        self.operator.resume()
        self.wait_waiting("edited", "spec.podSets[0].count is 1, expected 9", seconds=WAIT)
        self.wait_other_request(second)
        asked = 'lockstep_capacity_answers_total'
        self.assertGreaterEqual(self.operator.metric(asked, answer="edited"), 2)
        self.admin.delete("TrainingJob", "edited", self.namespace)
        self.wait_nothing_left()


if __name__ == "__main__":
    main()
