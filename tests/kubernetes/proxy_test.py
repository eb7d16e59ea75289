"""The proxy between clients and the API server does to a request what its rule says."""

from client import ApiError
from kubernetes_case import KubernetesCase, main
from proxy import Fault, Proxy


class ProxyTest(KubernetesCase):
    options = {"controllers": False}

    def setUp(self):
        self.proxy = Proxy(self.plane, "admin")
        self.addCleanup(self.proxy.close)
        self.client = self.plane.client("admin", self.proxy.address)
        self.heard = []

    def test_passes_everything_on_and_counts_writes(self):
        self.create("passed")
        self.assertIsNotNone(self.client.find("ConfigMap", "passed"))
        self.assertEqual(len(self.proxy.writes), 1)
        self.assertEqual(self.proxy.writes[0][0], "POST")

    def test_drops_a_write_before_the_server_hears_of_it(self):
        self.proxy.rule = self.at_write(2, Fault(before=lambda: self.heard.append("before")))
        self.create("first")
        with self.assertRaises(OSError):
            self.create("second")
        self.assertEqual(self.heard, ["before"])
        self.assertIsNone(self.admin.find("ConfigMap", "second"))

    def test_drops_the_answer_to_a_write_that_happened(self):
        self.proxy.rule = self.at_write(1, Fault(after=lambda: self.heard.append("after")))
        with self.assertRaises(OSError):
            self.create("unanswered")
        self.assertEqual(self.heard, ["after"])
        self.assertIsNotNone(self.admin.find("ConfigMap", "unanswered"))

    def test_answers_in_the_place_of_the_server(self):
        body = b'{"reason": "TooManyRequests"}'
        self.proxy.rule = self.at_write(1, Fault(answer=(429, {"Retry-After": "1"}, body)))
        with self.assertRaises(ApiError) as refused:
            self.create("refused")
        self.assertEqual((refused.exception.code, refused.exception.reason),
                         (429, "TooManyRequests"))
        self.assertIsNone(self.admin.find("ConfigMap", "refused"))

    def create(self, name):
        # A client of one request: it has no connection that could be tried again.
        client = self.plane.client("admin", self.proxy.address)
        client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})

    @staticmethod
    def at_write(number, fault):
        return lambda request: fault if request.write == number else None


if __name__ == "__main__":
    main()
