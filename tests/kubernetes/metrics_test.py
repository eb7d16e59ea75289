"""Both programs' metrics in the eyes of Prometheus' own linter."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import urllib.request

from control_plane import CONTROL_PLANE_TOOLS
from jobs import JobCase
from kubernetes_case import main
from processes import LoopbackAddress, Program, wait_for
from tools import BIN, REPOSITORY, require_tools, tool

STATUS_PORT = 2223
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def complaints(page):
    """What `promtool check metrics` has to say; empty when it is content."""
    run = subprocess.run([tool("promtool"), "check", "metrics"], input=page,
                         capture_output=True, text=True, timeout=60)
    return run.stdout + run.stderr or ("" if run.returncode == 0 else f"exit {run.returncode}")


class OperatorMetricsTest(JobCase):
    tools = (*CONTROL_PLANE_TOOLS, "kwok", "promtool")

    def test_the_page_of_an_operator_with_jobs_is_clean(self):
        self.create_job("placed", 2)
        self.wait_running("placed", 2)
        self.create_job("waiting", 100)
        self.wait_waiting("waiting", "100 GPUs")
        self.wait_for(lambda: self.operator.metric("lockstep_queue_waiting_jobs", queue="default")
                      == 1, 30, "the waiting job to be counted, though nobody has written a queue")
        page = self.operator.get("/metrics")
        self.assertIn('lockstep_gang_wait_seconds_count{queue="default"} 1\n', page)
        self.assertEqual(complaints(page), "")


class WorkerMetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        require_tools("promtool")
        if not (BIN / "liblockstep-engine.so").exists():
            raise unittest.SkipTest("liblockstep-engine.so is not built")

    def test_the_page_of_a_worker_that_trains_is_clean(self):
        self.assertEqual(complaints(self.page_of_a_training(1, [""])), "")

    def test_the_page_of_a_worker_with_several_processes_is_clean_and_has_all_of_them(self):
        page = self.page_of_a_training(2, ['{local_rank="0"}', '{local_rank="1"}'])
        self.assertEqual(complaints(page), "")

    def page_of_a_training(self, processes, labels):
        """The page once the series with each of the labels has counted a step."""
        host = LoopbackAddress()
        self.addCleanup(host.release)
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="worker-")))
        worker = Program("worker", [BIN / "lockstep-runtime", "train"], folder / "worker.log",
                         self.environment(folder / "job.yaml", host.address, processes))
        self.addCleanup(worker.kill)

        def page_with_steps():
            page = self.page_of(host.address)
            counts = [f"lockstep_step_seconds_count{label} " for label in labels]
            return all(count in page and f"{count}0\n" not in page for count in counts) and page

        return wait_for(page_with_steps, 60, "a step")

    def environment(self, manifest, address, processes):
        """What a cluster gives to the only worker of a long training."""
        text = (REPOSITORY / "examples" / "mnist.yaml").read_text()
        text = text.replace("replicas: 3", f"replicas: 1\n    processes: {processes}")
        text = text.replace("epochs: 8", "epochs: 900")
        manifest.write_text(text)
        rendered = subprocess.run([BIN / "lockstep", "render", manifest, "--output", "json"],
                                  capture_output=True, text=True, check=True).stdout
        rendered = rendered.replace("mnist-worker-0.mnist.default.svc", address)
        return {**os.environ, **json.loads(rendered)["pods"][0]["env"],
                "LOCKSTEP_BIND_ADDRESS": address, "LOCKSTEP_HOST": address,
                "LOCKSTEP_DATA_DIR": str(REPOSITORY / "examples")}

    def page_of(self, address):
        try:
            with _OPENER.open(f"http://{address}:{STATUS_PORT}/metrics", timeout=5) as response:
                return response.read().decode()
        except OSError:
            return ""


if __name__ == "__main__":
    main()
