"""A gang is placed whole or not at all: two nodes of four GPUs, and jobs that want more."""

import re
import time

from client import Watch
from hollow_nodes import GPU
from jobs import JOB_LABEL, JobCase, foreign_pod, is_leaving, is_running
from kubernetes_case import main
from processes import wait_for

# How long part of a gang may stand alone while the rest is being bound: a bound, and no figure.
PARTLY_SECONDS_MAX = 120


class PartlyPlaced:
    """Watches the pods of a namespace, and measures how long any gang stood partly placed."""

    def __init__(self, admin, namespace, sizes):
        self._watch = Watch(admin, "Pod", namespace, labels=JOB_LABEL)
        self._sizes = sizes

    def longest(self):
        """Closes the watch; the longest time in seconds, and of which job."""
        self._watch.close()
        bound, since, worst = {}, {}, (0.0, None)
        for arrival, kind, pod in self._watch.events:
            job = pod["metadata"]["labels"][JOB_LABEL]
            here = bound.setdefault(job, set())
            if kind == "DELETED" or is_leaving(pod):
                here.discard(pod["metadata"]["uid"])
            elif pod["spec"].get("nodeName"):
                here.add(pod["metadata"]["uid"])
            if 0 < len(here) < self._sizes[job]:
                since.setdefault(job, arrival)
            elif job in since:
                worst = max(worst, (arrival - since.pop(job), job))
        for job, start in since.items():
            worst = max(worst, (time.monotonic() - start, job))
        return worst


class GangTest(JobCase):
    nodes, gpus = 2, 4

    def test_jobs_that_do_not_fit_together_wait_for_each_other(self):
        sizes = {"first": 5, "second": 5, "third": 3}
        partly = PartlyPlaced(self.admin, self.namespace, sizes)
        for name, workers in sizes.items():
            self.create_job(name, workers)
        self.wait_running("first", 5)
        # Free is what the third leaves, and the test before, whose pod may be there yet: each job
        # has its turn when its own answers have come.
        wait_for(lambda: any(re.search("needs 5 GPUs, [0-3] free", message)
                             for _, message, _ in self.events("second")), 30,
                 lambda: f"the shortfall among {self.events('second')}\n{self.describe('second')}")
        self.wait_waiting("second", "GPU", "free")
        self.hold(lambda: self.assertEqual(self.names("second"), []), 2)
        events = self.events("second")
        reasons = [reason for reason, _, _ in events]
        self.assertEqual(len(reasons), len(set(reasons)), f"each reason is said once: {events}")
        self.end_job("first")
        self.wait_running("second", 5)
        self.wait_running("third", 3)
        self.assert_room_is_respected()
        self.end_job("second")
        self.end_job("third")
        seconds, job = partly.longest()
        self.assertLess(seconds, PARTLY_SECONDS_MAX, f"{job} stood partly placed")

    def test_a_job_larger_than_the_cluster_says_so(self):
        self.create_job("large", 9)
        self.wait_waiting("large", "9 GPUs", "8")
        self.create_job("small", 1)
        self.assertEqual(self.names("large"), [])

    def test_room_of_others_counts(self):
        self.admin.create(foreign_pod("other", self.hollow.names[0], gpus=3), self.namespace)
        wait_for(lambda: is_running(self.admin.get("Pod", "other", self.namespace)), 20, "other")
        self.create_job("whole", 8)
        self.wait_waiting("whole", "8 GPUs", "5")
        self.admin.delete("Pod", "other", self.namespace, gracePeriodSeconds=0)
        self.wait_running("whole", 8)

    def test_many_jobs_at_once_all_end(self):
        sizes = {f"job-{index}": 1 + index % 5 for index in range(10)}
        partly = PartlyPlaced(self.admin, self.namespace, sizes)
        annotations = {"hollow.test/exit-code": "0", "hollow.test/run-for": "500ms"}
        for name, workers in sizes.items():
            self.create_job(name, workers, annotations=annotations)
        for name in sizes:
            self.wait_condition(name, "Succeeded", 120)
        self.assertLess(partly.longest()[0], PARTLY_SECONDS_MAX)

    def assert_room_is_respected(self):
        held = {}
        for pod in self.admin.list("Pod", None):
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            node = pod["spec"].get("nodeName")
            for container in pod["spec"]["containers"]:
                limits = container.get("resources", {}).get("limits", {})
                held[node] = held.get(node, 0) + int(limits.get(GPU, 0))
        for node in self.hollow.names:
            self.assertLessEqual(held.get(node, 0), self.gpus, held)


if __name__ == "__main__":
    main()
