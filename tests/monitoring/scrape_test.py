"""A real Prometheus scrapes a real operator and real trainings: every panel's query has data in it,
every rule can be evaluated, and no alert fires."""

import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

from monitoring import ALERTS, BOARDS, REPOSITORY, alert_names, board, tool

sys.path.insert(0, str(REPOSITORY / "tests" / "local"))

import unittest  # noqa: E402 (the folders of the modules below come first)

from control_plane import CONTROL_PLANE_TOOLS  # noqa: E402
from harness import REFERENCE_ENGINE, LocalTest, training_manifest  # noqa: E402
from jobs import JobCase, condition  # noqa: E402
from kubernetes_case import main  # noqa: E402
from operator_process import NAMESPACE  # noqa: E402
from processes import LoopbackAddress, Program, wait_for  # noqa: E402
from tools import BIN  # noqa: E402

PROMETHEUS_PORT = 9090
STATUS_PORT = 2223
WORKERS = 3
NVML = BIN / "liblockstep_test_nvml.so"
# What Grafana puts in place of a board's variables; long enough for all that the test does.
VARIABLES = {"namespace": ".*", "queue": ".*", "job": ".*", "resource": "nvidia.com/gpu",
             "__rate_interval": "4m", "__range_s": "240", "__range": "4m"}
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def with_variables(query):
    for name, value in VARIABLES.items():
        query = query.replace(f"${name}", value)
    return query


def require_programs():
    for program in (BIN / "lockstep", BIN / "lockstep-runtime", NVML, REFERENCE_ENGINE):
        if not program.exists():
            raise unittest.SkipTest(f"{program.name} is not built")


class ScrapeTest(JobCase):
    tools = (*CONTROL_PLANE_TOOLS, "kwok", "helm", "prometheus")
    requirements = (*JobCase.requirements, require_programs)
    nodes, gpus = 2, 4

    def test_every_query_has_data(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="scrape-")))
        self.start_worker_with_gpu()
        self.start_training()
        self.start_prometheus()
        wait_for(lambda: self.count_up() == 2 + WORKERS, 30, "all targets to be up")
        self.let_things_happen_to_the_operator()
        os.kill(LocalTest.pid_of(self, self.run_folder, "quick-worker-1"), signal.SIGKILL)
        self.missing = None
        wait_for(lambda: not self.find_missing(), 90, lambda: f"data of {self.missing}")
        self.check_variables()
        self.check_rules()

    def let_things_happen_to_the_operator(self):
        """A queue's job starts and loses a pod, another one waits."""
        self.admin.create({"apiVersion": "lockstep.dev/v1", "kind": "TrainingQueue",
                           "metadata": {"name": "vision"},
                           "spec": {"nominal": {"nvidia.com/gpu": 4}}})
        self.addCleanup(self.admin.delete, "TrainingQueue", "vision")
        wait_for(lambda: self.has_data('lockstep_queue_nominal{queue="vision"}'), 30, "the queue")
        self.create_job("runs", 2, scheduling={"queue": "vision"})
        self.wait_running("runs", 2)
        self.create_job("waits", 8, scheduling={"queue": "vision"})
        self.wait_waiting("waits")
        attempt = self.job("runs")["status"].get("attempt", 0)
        self.admin.delete("Pod", self.names("runs")[0], self.namespace)
        wait_for(lambda: self.job("runs")["status"].get("attempt", 0) > attempt and
                 (condition(self.job("runs"), "Running") or [False])[0], 60, "the job to run again")

    def start_worker_with_gpu(self):
        """What a kubelet starts of a training of one, beside a driver's double."""
        host = LoopbackAddress()
        self.addCleanup(host.release)
        self.gpu_address = host.address
        manifest = self.folder / "gpu.yaml"
        text = training_manifest(name="gpu", workers=1, steps=10**7, every_steps=10**6)
        manifest.write_text(text.replace("replicas: 1", "replicas: 1\n    processes: 2"))
        rendered = subprocess.run([BIN / "lockstep", "render", manifest, "--output", "json"],
                                  capture_output=True, text=True, check=True).stdout
        rendered = rendered.replace("gpu-worker-0.gpu.default.svc", host.address)
        (self.folder / "libnvidia-ml.so.1").symlink_to(NVML)
        environment = {**os.environ, **json.loads(rendered)["pods"][0]["env"],
                       "LOCKSTEP_BIND_ADDRESS": host.address, "LOCKSTEP_HOST": host.address,
                       "LOCKSTEP_DATA_DIR": str(self.folder), "LOCKSTEP_ENGINE": REFERENCE_ENGINE,
                       "LD_LIBRARY_PATH": str(self.folder),
                       "LOCKSTEP_TEST_NVML_DEVICES": "GPU-a@1,GPU-b@2",
                       "LOCKSTEP_TEST_NVML_USE": "85/17179869184,40/1024"}
        worker = Program("worker", [BIN / "lockstep-runtime", "train"], self.folder / "worker.log",
                         environment)
        self.addCleanup(worker.kill)

    def start_training(self):
        """A gang on this machine that saves often, and goes on until it is stopped."""
        manifest = self.folder / "quick.yaml"
        manifest.write_text(training_manifest(workers=WORKERS, steps=10**7, every_steps=500))
        self.run_folder = self.folder / "run"
        run = Program("run", [BIN / "lockstep", "run", manifest, "--dir", self.run_folder],
                      self.folder / "run.log",
                      {**os.environ, "LOCKSTEP_ENGINE": str(REFERENCE_ENGINE)})

        def stop():
            run.signal(signal.SIGINT)
            run.exit_code(60)

        self.addCleanup(stop)
        said = re.compile(r"pods listen on (127\.\d+\.\d+)\.(\d+) to \S+ ports? .*"
                          r"status and metrics on port (\d+)")
        found = wait_for(lambda: said.search(run.log.read_text()), 30, run.tail)
        self.targets = [f"{found[1]}.{int(found[2]) + index}:{found[3]}"
                        for index in range(WORKERS)]

    def start_prometheus(self):
        """With the labels that the chart's monitors add."""
        def of_pod(job, index):
            return {"namespace": "team", "pod": f"{job}-worker-{index}", "lockstep_dev_job": job,
                    "lockstep_dev_role": "worker", "lockstep_dev_index": str(index)}

        operator = self.operator._address
        workers = [{"targets": [target], "labels": of_pod("quick", index)}
                   for index, target in enumerate(self.targets)]
        workers.append({"targets": [f"{self.gpu_address}:{STATUS_PORT}"],
                        "labels": of_pod("gpu", 0)})
        configuration = self.folder / "prometheus.json"
        configuration.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [
                {"job_name": "operator", "static_configs": [
                    {"targets": [operator],
                     "labels": {"namespace": NAMESPACE, "pod": "lockstep-0"}}]},
                {"job_name": "workers", "static_configs": workers}]}))
        listen = f"{self.plane.local_address}:{PROMETHEUS_PORT}"
        self.url = f"http://{listen}/api/v1"
        server = Program("prometheus", [
            tool("prometheus"), f"--config.file={configuration}",
            f"--storage.tsdb.path={self.folder / 'data'}", f"--web.listen-address={listen}",
        ], self.folder / "prometheus.log")
        self.addCleanup(server.kill)

    def ask(self, path, **query):
        """Prometheus' answer; a query that it does not understand fails the test."""
        try:
            with _OPENER.open(f"{self.url}/{path}?{urllib.parse.urlencode(query)}") as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it has only just started
                raise
            raise AssertionError(f"{query}: {error.read().decode()}") from None

    def count_up(self):
        try:
            targets = self.ask("targets", state="active")["activeTargets"]
        except OSError:
            return 0
        return sum(each["health"] == "up" for each in targets)

    def has_data(self, query, legend=""):
        """Whether the query has a number for an answer, and the answer the legend's labels."""
        wanted = set(re.findall(r"\{\{(\w+)\}\}", legend))
        return any(math.isfinite(float(each["value"][1])) and wanted <= set(each["metric"])
                   for each in self.ask("query", query=query)["result"])

    def queries(self):
        """(where it stands, query, legend) of all panels."""
        for name in BOARDS.values():
            for panel in board(name)["panels"]:
                for target in panel["targets"]:
                    yield (f"{name}, {panel['title']}, {target['refId']}", target["expr"],
                           target["legendFormat"])
            for annotation in board(name)["annotations"]["list"]:
                yield (f"{name}, annotation {annotation['name']}", annotation["expr"],
                       annotation["textFormat"])

    def find_missing(self):
        self.missing = [place for place, query, legend in self.queries()
                        if not self.has_data(with_variables(query), legend)]
        return self.missing

    def check_variables(self):
        for name in BOARDS.values():
            for variable in board(name)["templating"]["list"][1:]:
                with self.subTest(name, variable=variable["name"]):
                    asked = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"])
                    self.assertTrue(self.ask(f"label/{asked[2]}/values",
                                             **{"match[]": with_variables(asked[1])}))

    def check_rules(self):
        rules = [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]
        self.assertCountEqual([rule["name"] for rule in rules if rule["type"] == "alerting"],
                              alert_names())
        labels = self.ask("labels")
        for rule in rules:
            with self.subTest(rule["name"]):
                self.assertEqual((rule["health"], rule.get("lastError", "")), ("ok", ""))
                self.assertNotEqual(rule.get("state"), "firing")
                for metric in set(re.findall(r"\b(?:lockstep_(?!dev_)|leader_election_)\w+",
                                             rule["query"])):
                    self.assertTrue(self.ask("series", **{"match[]": metric}), metric)
                for named in re.findall(r"\b(?:by|on|without) \(([^)]+)\)", rule["query"]):
                    self.assertEqual(set(named.split(", ")) - set(labels), set())


if __name__ == "__main__":
    main()
