"""What an admission webhook that takes its time does to the job that it is about, and to others."""

import base64
import http.server
import json
import ssl
import threading
import time

from jobs import JobCase, foreign_pod
from kubernetes_case import main
from processes import wait_for

ANSWER_SECONDS = 8  # 30 are legal; the operator once gave up after 5


class SlowWebhook:
    """Allows every pod, late. `asked` holds when it was asked, `answered` when it answered;
    `is_known` is set when it was asked for a dry run, which it answers at once."""

    def __init__(self, plane):
        self.asked, self.answered, self.is_known = [], [], threading.Event()
        webhook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if review["request"].get("dryRun"):
                    webhook.is_known.set()
                else:
                    webhook.asked.append(time.monotonic())
                    time.sleep(ANSWER_SECONDS)
                    webhook.answered.append(time.monotonic())
                review["response"] = {"uid": review["request"]["uid"], "allowed": True}
                body = json.dumps(review).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer((plane.local_address, 0), Handler)
        host, port = self._server.server_address
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(
            *plane.credentials.make_certificate("webhook", "/CN=webhook", addresses=[host]))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://{host}:{port}/"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class WebhookTest(JobCase):
    def test_a_slow_webhook_delays_the_job_that_it_is_about_and_no_other(self):
        webhook = SlowWebhook(self.plane)
        self.addCleanup(webhook.close)
        self.register(webhook, "slow")
        self.create_job("slow", 2)
        wait_for(lambda: len(webhook.asked) == 2, 20, "the webhook to be asked for both pods")
        self.create_job("fast", 2)
        self.wait_running("fast", 2)
        self.assertEqual(webhook.answered, [], "the other job has waited for it")
        self.wait_running("slow", 2)
        self.assertEqual(len(webhook.asked), 2, "no pod was made twice")
        status = self.job("slow")["status"]
        self.assertEqual((status.get("attempt", 0), status.get("restarts", [])), (0, []))

    def register(self, webhook, job):
        authority = base64.b64encode(self.plane.credentials.ca_file.read_bytes()).decode()
        name = "slow-webhook"
        self.admin.create({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [{
                "name": "slow.example.com",
                "clientConfig": {"url": webhook.url, "caBundle": authority},
                "objectSelector": {"matchLabels": {"lockstep.dev/job": job}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                           "resources": ["pods"]}],
                "timeoutSeconds": 30,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        })
        self.addCleanup(self.admin.delete, "ValidatingWebhookConfiguration", name)
        probe = foreign_pod("probe")
        probe["metadata"]["labels"] = {"lockstep.dev/job": job}

        def is_asked():  # the server takes up new webhooks a moment later, without saying when
            self.plane.kubectl("create", "--dry-run=server", "-n", self.namespace, "-f", "-",
                               input=json.dumps(probe))
            return webhook.is_known.is_set()

        wait_for(is_asked, 20, "the server to know the webhook")


if __name__ == "__main__":
    main()
