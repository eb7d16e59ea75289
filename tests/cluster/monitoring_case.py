"""A real Prometheus scrapes the operator and the workers of a job."""

import json
import unittest
import urllib.parse
import urllib.request

from product import ProductCase  # lets us import from other folders
from operator_process import NAMESPACE, TRANSPORT
from processes import resident_mib, wait_for
from tools import require_tools, tool
from training import BESIDE_OTHERS, STATUS_PORT

PORT = 9090
# A bit more than was seen over beast: 19.4 MiB at first, 22.4 MiB after ten minutes of jobs.
RESIDENT_MIB_MAX = {"beast": 24, "cpprest": 28}
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class MonitoringTest(ProductCase):
    @classmethod
    def setUpClass(cls):
        require_tools("prometheus")
        super().setUpClass()

    def test_operator_and_workers_are_scraped_and_the_operator_names_no_job(self):
        training = self.train(epochs=100, role=BESIDE_OTHERS)
        training.wait_steps()
        self.start_prometheus(training)
        wait_for(self.all_are_up, 30, "four targets to be up")
        steps = self.ask("query", query="lockstep_step_seconds_count > 0")["result"]
        self.assertEqual({each["metric"]["rank"] for each in steps}, {"0", "1", "2"})
        running = self.ask("query", query='lockstep_jobs{state="Running"} == 1')["result"]
        self.assertEqual(len(running), 1)
        series = self.ask("series", **{"match[]": '{job="operator"}'})
        self.assertGreater(len(series), 100)
        for labels in series:
            self.assertNotIn("mnist", labels.values())
            self.assertNotIn(self.namespace, labels.values())

    def test_an_idle_operator_is_small(self):
        pod = self.product.operator_pod()
        pid = self.product.node_of(pod).container_pid(pod)
        resident = resident_mib(pid)
        print(f"operator over {TRANSPORT}: {resident:.1f} MiB")
        self.assertLess(resident, RESIDENT_MIB_MAX[TRANSPORT])

    def start_prometheus(self, training):
        """It finds what the API server knows. Debian's cannot ask that itself."""
        slices = self.admin.list("EndpointSlice", NAMESPACE,
                                 labels="kubernetes.io/service-name=lockstep-metrics")
        operators = [f"{address}:{port['port']}" for each in slices for port in each["ports"]
                     for endpoint in each["endpoints"] for address in endpoint["addresses"]]
        workers = [{"targets": [f"{pod['status']['podIP']}:{STATUS_PORT}"],
                    "labels": {"rank": pod["metadata"]["labels"]["lockstep.dev/rank"]}}
                   for pod in training.pods().values()]
        configuration = self.cluster.folder / "prometheus.json"
        configuration.write_text(json.dumps({
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [
                {"job_name": "operator", "static_configs": [{"targets": operators}]},
                {"job_name": "workers", "static_configs": workers},
            ],
        }))
        listen = f"{self.plane.local_address}:{PORT}"
        self.url = f"http://{listen}/api/v1"
        server = self.plane.run(
            "prometheus", tool("prometheus"), f"--config.file={configuration}",
            f"--storage.tsdb.path={self.cluster.folder / 'prometheus'}",
            f"--web.listen-address={listen}")
        self.addCleanup(server.kill)

    def ask(self, path, **query):
        with _OPENER.open(f"{self.url}/{path}?{urllib.parse.urlencode(query)}") as response:
            return json.load(response)["data"]

    def all_are_up(self):
        try:
            targets = self.ask("targets", state="active")["activeTargets"]
        except OSError:
            return False
        jobs = sorted(each["labels"]["job"] for each in targets if each["health"] == "up")
        return jobs == ["operator"] + 3 * ["workers"]


if __name__ == "__main__":
    unittest.main()
