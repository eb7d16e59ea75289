"""A webhook for pods, whose judge is a function of the test."""

import base64
import http.server
import json
import ssl
import threading

from jobs import JOB_LABEL, foreign_pod
from processes import wait_for


class Refusal(Exception):
    """Raised by a judge. `code` is the review's own; without one it is the API server's 403."""

    def __init__(self, message, code=None):
        super().__init__(message)
        self.message, self.code = message, code


class Webhook:
    """Asks `judge(pod)` about every pod that is created for a job of these names, in a thread of
    its own: it may take its time, raise Refusal, or let anything else answer with HTTP 400. A
    webhook that `mutates` may return a JSON patch. Dry runs are answered at once."""

    def __init__(self, plane, judge, jobs, mutates=False):
        self._plane, self._jobs = plane, jobs
        self._kind = ("Mutating" if mutates else "Validating") + "WebhookConfiguration"
        self._is_known = threading.Event()
        webhook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                request = review["request"]
                answer = {"uid": request["uid"], "allowed": True}
                try:
                    if request.get("dryRun"):
                        webhook._is_known.set()
                    elif patch := judge(request["object"]):
                        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
                        answer.update(patchType="JSONPatch", patch=encoded)
                except Refusal as refusal:
                    status = {"message": refusal.message}
                    if refusal.code is not None:
                        status["code"] = refusal.code
                    answer.update(allowed=False, status=status)
                except ValueError as error:
                    self.send_error(400, str(error))
                    return
                body = json.dumps({**review, "response": answer}).encode()
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
        self._url = f"https://{host}:{port}/"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self):
        """The API server asks nobody any more."""
        if self._plane.admin.find(self._kind, "test"):
            self._plane.admin.delete(self._kind, "test")
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def register(self):
        """Returns when the API server asks about pods."""
        authority = base64.b64encode(self._plane.credentials.ca_file.read_bytes()).decode()
        self._plane.admin.create({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": self._kind,
            "metadata": {"name": "test"},
            "webhooks": [{
                "name": "test.example.com",
                "clientConfig": {"url": self._url, "caBundle": authority},
                "objectSelector": {"matchExpressions": [
                    {"key": JOB_LABEL, "operator": "In", "values": self._jobs}]},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                           "resources": ["pods"]}],
                "timeoutSeconds": 30,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        })
        probe = foreign_pod("probe")
        probe["metadata"]["labels"] = {JOB_LABEL: self._jobs[0]}

        def is_asked():  # the server takes up new webhooks a moment later, without saying when
            self._plane.kubectl("create", "--dry-run=server", "-f", "-",
                                input=json.dumps(probe))
            return self._is_known.is_set()

        wait_for(is_asked, 20, "the server to know the webhook")
