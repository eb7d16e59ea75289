"""A gang that cannot start whole is rolled back whole, says why, and is tried again later."""

import threading
import time

from hollow_nodes import PlayedNode
from jobs import JOB_LABEL, JobCase, condition, foreign_pod, is_leaving
from kubernetes_case import main
from processes import wait_for

ROLL_BACK_SECONDS = 60  # the longest patience is 20 s; the rest is for a busy machine
HEARTBEAT_SECONDS = 5
PORT = {"ports": [{"containerPort": 9, "hostPort": 9}]}


class RollBackTest(JobCase):
    """Gangs of four on four nodes of one GPU. On the last node the test is the kubelet."""

    nodes, gpus = 3, 1

    @classmethod
    def start_more(cls):
        super().start_more()
        cls.played = PlayedNode(cls.plane, "played-0", gpus=1)

    def setUp(self):
        super().setUp()
        self.treat = self.played.run  # what the kubelet does with a new pod
        stop = threading.Event()
        kubelet = threading.Thread(target=self.play, args=(stop,))
        kubelet.start()
        self.addCleanup(kubelet.join)
        self.addCleanup(stop.set)

    def play(self, stop):
        treated = set()
        heartbeat = 0.0
        while not stop.wait(0.05):
            if time.monotonic() >= heartbeat:
                self.played.set_ready("True")
                heartbeat = time.monotonic() + HEARTBEAT_SECONDS
            for pod in self.played.pods(self.namespace):
                name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
                if is_leaving(pod):
                    self.played.remove(name, self.namespace)
                elif uid not in treated:
                    treated.add(uid)
                    self.treat(name, self.namespace)

    def cure_kubelet(self):
        self.treat = self.played.run

    def test_when_the_kubelet_refuses_a_pod(self):
        self.treat = self.played.refuse
        self.roll_back("PodRefused", "UnexpectedAdmissionError", self.cure_kubelet)

    def test_when_an_image_cannot_be_pulled(self):
        self.treat = self.played.fail_to_pull
        self.roll_back("ImagePullFailed", "ImagePullBackOff", self.cure_kubelet)

    def test_when_the_scheduler_knows_more(self):
        """It alone knows whom pods of others do not bear beside them."""
        pod = foreign_pod("alone", self.played.name)
        pod["spec"]["affinity"] = {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "labelSelector": {"matchLabels": {JOB_LABEL: "gang"}},
                "topologyKey": "kubernetes.io/hostname",
            }]}}
        self.admin.create(pod, self.namespace)

        def leave():
            self.admin.delete("Pod", "alone", self.namespace, gracePeriodSeconds=0)

        self.roll_back("PodUnschedulable", "anti-affinity", leave)

    def test_a_port_of_a_node_is_planned(self):
        self.admin.create(foreign_pod("taken", self.hollow.names[0], **PORT), self.namespace)
        self.create_job("gang", 4, pod_spec={"container": PORT})
        self.wait_waiting("gang", "needs 4 hostPort:9, 3 free on 3 nodes")
        self.assertEqual(self.pods("gang"), [])
        self.admin.delete("Pod", "taken", self.namespace, gracePeriodSeconds=0)
        self.wait_running("gang", 4)
        self.assertEqual(self.job("gang")["status"].get("attempt", 0), 0)

    def test_when_a_quota_is_exceeded(self):
        self.admin.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
                           "spec": {"hard": {"pods": "3"}}}, self.namespace)
        wait_for(lambda: self.admin.get("ResourceQuota", "few", self.namespace)
                 .get("status", {}).get("hard"), 30, "the quota to hold")

        def lift_quota():
            self.admin.delete("ResourceQuota", "few", self.namespace)

        self.roll_back("PodNotCreated", "exceeded quota: few", lift_quota)

    def roll_back(self, reason, words, cure, **options):
        """The gang goes, says why, lets another job run meanwhile, and comes back when cured."""
        self.create_job("gang", 4, **options)
        status = self.wait_rolled_back(reason, words)
        self.assertEqual(status.get("placement", []), [])
        self.assertIn("retryAt", status)
        wait_for(lambda: not self.pods("gang"), 30, "the whole gang to go")
        wait_for(lambda: self.told(reason, words), 30, f"an Event {reason}")
        self.create_job("other", 3, pod_spec={"nodeSelector": {"type": "hollow"}})
        self.wait_running("other", 3, 60)
        cure()
        self.end_job("other")
        self.wait_running("gang", 4, 120)
        status = self.job("gang")["status"]
        self.assertEqual(status.get("restarts", []), [], "nothing is counted against the budget")
        self.assertGreaterEqual(status["attempt"], 1)

    def wait_rolled_back(self, reason, words):
        def rolled_back():
            job = self.job("gang")
            found = condition(job, "Scheduled")
            is_so = found and found[:2] == (False, reason) and words in found[2]
            return job["status"] if is_so else None

        try:
            return wait_for(rolled_back, ROLL_BACK_SECONDS, f"the gang to be rolled back: {reason}")
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.describe('gang')}") from None

    def told(self, reason, words):
        return [1 for why, message, _ in self.events("gang") if why == reason and words in message]


if __name__ == "__main__":
    main()
