"""What an admission webhook that takes its time does to the job that it is about, and to others."""

import time

from jobs import JobCase, condition
from kubernetes_case import main
from processes import wait_for
from webhook import Webhook

ANSWER_SECONDS = 8  # 30 are legal; the operator once gave up after 5


class WebhookTest(JobCase):
    def test_a_slow_webhook_delays_the_job_that_it_is_about_and_no_other(self):
        asked, answered = [], []

        def take_time(pod):
            asked.append(pod)
            time.sleep(ANSWER_SECONDS)
            answered.append(pod)

        webhook = Webhook(self.plane, take_time, ["slow"])
        self.addCleanup(webhook.close)
        webhook.register()
        self.create_job("slow", 2)
        wait_for(lambda: len(asked) == 2, 20, "the webhook to be asked for both pods")
        self.create_job("fast", 2)
        self.wait_running("fast", 2)
        self.assertEqual(answered, [], "the other job has waited for it")
        self.wait_running("slow", 2)
        self.assertEqual(len(asked), 2, "no pod was made twice")
        status = self.job("slow")["status"]
        self.assertEqual((status.get("attempt", 0), status.get("restarts", [])), (0, []))

    def test_a_pod_that_a_webhook_sends_to_another_node_is_named_and_counted_there(self):
        here, there = self.hollow.names

        def send_away(pod):
            if not pod["metadata"]["name"].endswith("-worker-1"):
                return None
            return [{"op": "remove", "path": "/spec/affinity"},
                    {"op": "add", "path": "/spec/nodeSelector",
                     "value": {"kubernetes.io/hostname": there}}]

        webhook = Webhook(self.plane, send_away, ["sent"], mutates=True)
        self.addCleanup(webhook.close)
        webhook.register()
        self.create_job("sent", 2)
        self.wait_running("sent", 2)
        wait_for(lambda: condition(self.job("sent"), "Scheduled")[1] == "PodElsewhere", 20,
                 "the job to say where its pod is")
        self.assertIn(f"pod sent-worker-1 (rank 1) was planned for node {here}, but is bound to "
                      f"node {there}", self.job("sent")["status"]["reason"])
        placed = [each["node"] for each in self.job("sent")["status"]["placement"]]
        self.assertEqual(placed, [here, there])
        wait_for(lambda: [1 for why, *_ in self.events("sent") if why == "PodElsewhere"], 20,
                 "an Event")


if __name__ == "__main__":
    main()
