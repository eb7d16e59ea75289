"""What lockstep.tensorflow.tf_config makes of the runtime's answers, and of none."""

import http.server
import json
import os
import socket
import threading
import unittest
from unittest import mock

from lockstep.errors import InvalidArgument, LockstepError, NoJob, Status
from lockstep.tensorflow import Task, TfConfig, tf_config

GOOD = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1},
        "attempt": 2, "epoch": 3}


class Answers(http.server.BaseHTTPRequestHandler):
    """A runtime that says what its server is told to."""

    def do_GET(self):
        self.send_response(200 if self.path == "/tf_config/0" else 404)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_):
        """Says nothing."""


class AskedForTfConfig(unittest.TestCase):
    def serve(self, body, path="/tf_config/0"):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        server.body = body
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        return self.use(f"http://127.0.0.1:{server.server_port}{path}")

    def use(self, url):
        variables = mock.patch.dict(os.environ, {"LOCKSTEP_TF_CONFIG_URL": url})
        variables.start()
        self.addCleanup(variables.stop)
        return url

    def fails(self, error, status, *words):
        with self.assertRaises(error) as raised:
            tf_config()
        self.assertEqual(raised.exception.status, status)
        for word in words:
            self.assertIn(word, str(raised.exception))

    def test_good_answer_is_typed(self):
        self.serve(json.dumps(GOOD).encode())
        config = tf_config()
        self.assertEqual(config, TfConfig({"worker": ("a:1", "b:1")}, Task("worker", 1), 2, 3))
        self.assertEqual(json.loads(config.text()),
                         {key: GOOD[key] for key in ("cluster", "task")})

    def test_proxies_of_the_environment_are_not_asked(self):
        self.serve(json.dumps(GOOD).encode())
        with mock.patch.dict(os.environ, {"http_proxy": "http://127.0.0.1:1", "no_proxy": ""}):
            self.assertEqual(tf_config().attempt, 2)

    def test_outside_of_a_job_it_says_so(self):
        self.use("")
        self.fails(NoJob, Status.NO_JOB, "LOCKSTEP_TF_CONFIG_URL is not set")

    def test_variable_that_is_no_address_is_named(self):
        for url in ("127.0.0.1:80", "http://127.0.0.1/x", "https://127.0.0.1:1/x", "http://a:b/x",
                    "http://127.0.0.1:1"):
            with self.subTest(url):
                self.use(url)
                self.fails(InvalidArgument, Status.INVALID_ARGUMENT, "LOCKSTEP_TF_CONFIG_URL", url)

    def test_timeout_of_no_time_is_refused(self):
        with self.assertRaisesRegex(InvalidArgument, "timeout: 0 found"):
            tf_config(timeout=0)

    def test_runtime_that_is_gone_is_told(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.use(f"http://127.0.0.1:{port}/tf_config/0")
        self.fails(LockstepError, Status.SYSTEM, "does not answer", "refused")

    def test_runtime_that_says_nothing_is_told_after_the_timeout(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self.use(f"http://127.0.0.1:{silent.getsockname()[1]}/tf_config/0")
            with self.assertRaisesRegex(LockstepError, "does not answer: timed out"):
                tf_config(timeout=0.05)

    def test_other_status_is_told(self):
        self.serve(b"", path="/tf_config/7")
        self.fails(LockstepError, Status.INTERNAL, "answers 404", "expected 200")

    def test_answers_that_are_no_tf_config_are_told_by_field(self):
        for change, words in (
            (None, "expected an object"),
            ({"cluster": None}, "cluster: 'None' found, expected an object"),
            ({"cluster": {"worker": "a:1"}}, "cluster.worker: 'a:1' found, expected a list"),
            ({"cluster": {"ps": [1]}}, "cluster.ps: '[1]' found"),
            ({"task": {"index": 0}}, "task: "),
            ({"task": {"type": "worker", "index": -1}}, "task.index: '-1' found"),
            ({"attempt": "2"}, "attempt: '2' found, expected a whole number"),
            ({"epoch": True}, "epoch: 'True' found"),
        ):
            with self.subTest(change):
                document = [] if change is None else {**GOOD, **change}
                self.serve(json.dumps(document).encode())
                self.fails(LockstepError, Status.INTERNAL, words)
        self.serve(b"<html>")
        self.fails(LockstepError, Status.INTERNAL, "<html>", "expected JSON")


if __name__ == "__main__":
    unittest.main()
