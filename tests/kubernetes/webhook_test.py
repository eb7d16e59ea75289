"""What an admission webhook that takes its time does to the job that it is about, and to others."""

import time

from jobs import JobCase
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


if __name__ == "__main__":
    main()
