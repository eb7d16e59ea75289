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


if __name__ == "__main__":
    main()
