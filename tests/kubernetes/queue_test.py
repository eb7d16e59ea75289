"""Shares of a cluster: what a queue may hold binds its jobs, who goes for whom, and who says so."""

import re

from client import ApiError
from hollow_nodes import GPU, HollowNodes
from jobs import JobCase, condition, is_true, training_job
from kubernetes_case import main
from operator_process import NAMESPACE, Operator, grant_rights, grant_rights_of
from processes import wait_for


def queue(name, gpus, **spec):
    return {"apiVersion": "lockstep.dev/v1", "kind": "TrainingQueue", "metadata": {"name": name},
            "spec": {"nominal": {GPU: gpus}, **spec}}


class ShareCase(JobCase):
    def make_queue(self, *arguments, **spec):
        made = self.admin.create(queue(*arguments, **spec))
        self.addCleanup(self.admin.delete, "TrainingQueue", made["metadata"]["name"])

    def make_class(self, name, value, **labels):
        self.admin.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                           "metadata": {"name": name, "labels": labels}, "value": value})
        self.addCleanup(self.admin.delete, "PriorityClass", name)

class QueueTest(ShareCase):
    """Eight GPUs on two nodes, shared by two queues."""

    nodes, gpus = 2, 4

    def test_a_queue_holds_its_share_and_what_others_leave_unused(self):
        self.make_queue("vision", 4, borrowingLimit={GPU: 2})
        self.make_queue("speech", 4, lendingLimit={GPU: 2})
        self.create_job("first", 4, scheduling={"queue": "vision"})
        self.wait_running("first", 4)
        self.create_job("second", 2, scheduling={"queue": "vision"})
        self.wait_running("second", 2)
        self.create_job("third", 1, scheduling={"queue": "vision"})
        self.wait_waiting(
            "third", "queue vision would be 3 GPUs over its nominal 4: it borrows 2 GPUs, and may "
                     "borrow 2"
        )
        self.create_job("fourth", 2, scheduling={"queue": "speech"})
        self.wait_running("fourth", 2)

        self.end_job("first")
        self.wait_running("third", 1)

    def test_the_table_of_kubectl_shows_what_each_job_does_and_why(self):
        self.make_queue("vision", 4)
        self.create_job("resnet", 3, scheduling={"queue": "vision"})
        self.wait_row("resnet", "Running", "3/3", "-", "-", "-", "vision", "AGE", "-")
        self.create_job("vit", 2, scheduling={"queue": "vision"})
        self.wait_row("vit", "Waiting", "0/2", "-", "-", "-", "vision #1", "AGE",
                      "queue vision would be 1 GPU over…")
        self.create_job("bad", 1)
        self.wait_running("bad", 1)
        self.hollow.end_pod("bad-worker-0", self.namespace, exit_code=3)
        self.wait_row("bad", "Failed", "0/1", "-", "-", "-", "default", "AGE",
                      "pod bad-worker-0 (rank 0) ended…")
        self.create_job("bert", 1)
        self.wait_running("bert", 1)
        self.cordon(True)
        self.addCleanup(self.cordon, None)
        self.hollow.end_pod("bert-worker-0", self.namespace, exit_code=137)
        self.wait_row("bert", "Restarting", "0/1", "-", "-", "-", "default", "AGE",
                      "no node accepts pods: 2 of 2 nodes…")
        self.assertEqual(self.table("tj")[0], ["NAME", "STATE", "READY", "STEP", "LOSS", "ETA",
                                               "QUEUE", "AGE", "REASON"])
        self.assertEqual(self.table("tq")[0], ["NAME", "PARENT", "USED", "WAITING", "READY",
                                               "REASON", "AGE"])

    def cordon(self, is_cordoned):
        for name in self.hollow.names:
            self.admin.patch("Node", name, {"spec": {"unschedulable": is_cordoned}})

    def wait_row(self, *cells):
        wait_for(lambda: list(cells) in self.table("tj"), 30,
                 lambda: f"{cells} among {self.table('tj')}")

    def table(self, kind):
        """What kubectl prints of all objects, as cells; ages are left out."""
        printed = self.plane.kubectl("get", kind, "-n", self.namespace, "--sort-by=.metadata.name")
        lines = printed.splitlines()
        self.assertLessEqual(max(map(len, lines)), 120, printed)
        cells = [re.split(r"\s{2,}", line.rstrip()) for line in lines]
        return [[re.sub(r"^(\d+[smhd])+$", "AGE", cell) for cell in line] for line in cells]

    def cordon(self, is_cordoned):
        for name in self.hollow.names:
            self.admin.patch("Node", name, {"spec": {"unschedulable": is_cordoned or None}})

    def test_a_job_waits_for_the_queue_that_it_names(self):
        self.create_job("early", 1, scheduling={"queue": "late"})
        self.wait_waiting("early", "queue late does not exist")
        self.create_job("other", 1)
        self.wait_running("other", 1)
        self.make_queue("late", 1)
        self.wait_running("early", 1)

    def test_a_job_hears_why_its_queue_is_not_served(self):
        self.make_queue("orphan", 1, parent="late")
        self.create_job("early", 1, scheduling={"queue": "orphan"})
        self.wait_waiting(
            "early", "queue orphan is not served: queue late, the parent of queue "
            "orphan, does not exist"
        )
        self.make_queue("late", 1)
        self.wait_running("early", 1)

    def test_a_queue_is_for_the_namespaces_that_it_names(self):
        self.make_queue("theirs", 4, namespaces=["elsewhere"])
        self.create_job("early", 1, scheduling={"queue": "theirs"})
        self.wait_waiting(
            "early", "queue theirs is for jobs of namespace elsewhere; this job is in "
        )
        self.assertEqual(condition(self.job("early"), "Scheduled")[1], "NamespaceNotAllowed")
        self.admin.patch("TrainingQueue", "theirs",
                         {"spec": {"namespaces": ["elsewhere", self.namespace]}})
        self.wait_running("early", 1)

    def test_a_queue_that_stops_jobs_before_they_may_go_is_refused(self):
        with self.assertRaises(ApiError) as refused:
            self.make_queue("short", 1, minRuntimeSeconds=61, maxRuntimeSeconds=60)
        self.assertIn("spec.maxRuntimeSeconds", str(refused.exception))
        self.assertIn("less than minRuntimeSeconds found, expected at least minRuntimeSeconds",
                      str(refused.exception))

    def test_a_queue_says_how_it_stands_in_the_units_of_kubernetes(self):
        self.make_queue("above", 4, nominal={GPU: 4, "memory": "65536Mi", "cpu": "16000m"})
        self.make_queue("below", 6, parent="above")
        self.make_queue("beside", 0, parent="above")
        self.create_job("first", 2, scheduling={"queue": "below"})
        self.wait_running("first", 2)

        def status():
            return self.admin.get("TrainingQueue", "above").get("status", {})

        self.wait_for(lambda: status().get("used", {}).get(GPU) == "2", 30, "its use to be told")
        self.assertEqual(status()["nominal"], {GPU: "4", "memory": "64Gi", "cpu": "16"})
        [ready] = status()["conditions"]
        self.assertEqual((ready["status"], ready["reason"]), ("True", "PromisesTooMuch"))
        self.assertIn("below, beside", ready["message"])

    def test_a_running_job_stays_in_its_queue_until_it_starts_anew(self):
        self.make_queue("old", 2)
        self.make_queue("new", 2, borrowingLimit={GPU: 0})
        self.create_job("moves", 2, scheduling={"queue": "old"})
        self.wait_running("moves", 2)
        self.admin.patch("TrainingJob", "moves", {"spec": {"scheduling": {"queue": "new"}}},
                         self.namespace)
        self.wait_for(lambda: condition(self.job("moves"), "Scheduled")[1] == "ManifestChanged",
                      30, "the edit to be told")
        self.create_job("other", 2, scheduling={"queue": "new"})
        self.wait_running("other", 2)
        self.assertEqual(self.job("moves")["status"]["origin"]["queue"], "old")

    def test_a_job_that_is_stopped_in_time_passes_the_one_that_waits(self):
        self.create_job("base", 5, runPolicy={"activeDeadlineSeconds": 7200})
        self.wait_running("base", 5)
        self.create_job("head", 8)
        self.wait_waiting("head", "estimated start about ")
        self.create_job("later", 3)
        self.wait_waiting("later", "which needs 8 GPUs")
        self.create_job("short", 3, runPolicy={"activeDeadlineSeconds": 3600})
        self.wait_running("short", 3)

    def test_a_table_shows_what_is_used_of_a_quota_whatever_it_is_of(self):
        self.make_queue("vision", 4)
        self.make_queue("tables", 1, nominal={"cpu": 10})
        self.create_job("first", 3, scheduling={"queue": "vision"})
        self.wait_running("first", 3)
        for name, used in (("vision", "gpu 3/4"), ("tables", "cpu 0/10")):
            self.wait_for(lambda: used in self.plane.kubectl("get", "tq", name), 30,
                          f"{used} in the table")

    def test_the_server_refuses_what_nobody_could_mean(self):
        mistakes = {
            "Team-A": {},
            "loop": {"parent": "loop"},
            "negative": {"borrowingLimit": {GPU: -1}},
            "word": {"lendingLimit": {GPU: "many"}},
            "light": {"weight": 0},
            "random": {"ordering": "Random"},
            "half": {"nominal": {"rdma/hca": "1500m"}},
            "lent": {"lendingLimit": {GPU: "0.5"}},
            "blank": {"nominal": {"my gpu": 1}},
            "gpu": {"nominal": {"gpu": 1}},
            "pages": {"borrowingLimit": {"my_pages.v2": 1}},
            "slash": {"borrowingLimit": {"nvidia.com/": 1}},
            "vendor": {"lendingLimit": {"NVIDIA.com/gpu": 1}},
            "long": {"nominal": {"a" * 254 + "/gpu": 1}},
            "spaces": {"namespaces": ["Team_A"]},
            "twice": {"namespaces": ["team", "team"]},
        }
        for name, spec in mistakes.items():
            with self.subTest(name), self.assertRaises(ApiError) as refused:
                self.admin.create(queue(name, 1, **spec))
            self.assertIn(refused.exception.code, (400, 422))
        with self.assertRaises(ApiError) as refused:
            self.admin.create(queue("half", "1500m"))
        for words in ("spec.nominal", "expected whole numbers of devices"):
            self.assertIn(words, str(refused.exception))
        with self.assertRaises(ApiError) as refused:
            self.admin.create(queue("odd", 1, nominal={"my gpu": 1}))
        for words in ("spec.nominal", '"my gpu" found, expected a resource that '
                      'containers can request: cpu'):
            self.assertIn(words, str(refused.exception))
        self.make_queue("names", 1, nominal={"cpu": 1, "nvidia.com/mig-1g.5gb": 1,
                                             "hugepages-2Mi": "1Gi"})
        shown = self.plane.kubectl("get", "tq")
        self.assertNotIn("loop", shown)


class PreemptionTest(ShareCase):
    """Twenty GPUs on five nodes, and jobs that have others go."""

    nodes, gpus = 5, 4

    def test_an_urgent_job_has_another_go_which_comes_back_afterwards(self):
        self.make_class("urgent", 1000)
        self.make_queue("vision", 20, ordering="Priority",
                        preemption={"withinQueue": "LowerPriority"})
        self.create_job("low", 16, scheduling={"queue": "vision"})
        self.wait_running("low", 16)
        self.create_job(
            "high", 16, scheduling={"queue": "vision", "priorityClassName": "urgent"}
        )
        self.wait_running("high", 16)

        low, high = self.job("low")["status"], self.job("high")["status"]
        self.assertEqual((low["preemptions"], low["restartCount"]), (1, 0))
        self.assertNotIn("claim", high)
        by = f"preempted by {self.namespace}/high of priority 1000"
        self.assertIn(("Preempted", by, 1), self.events("low"))
        for_whom = f"waits for 1 gang to end: {self.namespace}/low"
        self.assertIn(("WaitsForOthersToGo", for_whom, 1), self.events("high"))
        self.wait_waiting("low", "queue vision would be 12 GPUs over its nominal 20")

        self.end_job("high")
        self.wait_running("low", 16)
        self.assertEqual(self.job("low")["status"]["preemptions"], 1)
        said = [one["message"] for one in self.job("low")["status"]["conditions"]]
        self.assertFalse([text for text in said if "preempted" in text], said)

    def test_nobody_goes_for_one_who_does_not_fit_then_or_may_not_ask(self):
        self.make_class("urgent", 1000)
        self.make_class("kept", 1, **{"lockstep.dev/preemptible": "false"})
        self.make_queue("vision", 20, ordering="Priority",
                        preemption={"withinQueue": "LowerPriority"})
        self.create_job("kept", 12, scheduling={"queue": "vision", "priorityClassName": "kept"})
        self.wait_running("kept", 12)
        self.create_job("low", 4, scheduling={"queue": "vision"})
        self.wait_running("low", 4)
        self.create_job("high", 12, scheduling={"queue": "vision", "priorityClassName": "urgent"})
        self.wait_waiting("high", "queue vision would be 8 GPUs over its nominal 20")
        self.assertTrue(is_true(self.job("low"), "Running"))

    def test_nobody_goes_for_a_job_whose_namespace_may_not_have_its_pods(self):
        self.make_class("urgent", 1000)
        self.make_queue("vision", 20, ordering="Priority",
                        preemption={"withinQueue": "LowerPriority"})
        other = self.namespace[:56] + "-other"
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
        self.admin.create(training_job("low", 16, scheduling={"queue": "vision"}), other)
        self.addCleanup(self.admin.delete_all, "Pod", other, gracePeriodSeconds=0)
        self.addCleanup(self.admin.delete_all, "TrainingJob", other)
        self.wait_for(lambda: is_true(self.admin.get("TrainingJob", "low", other), "Running"), 60,
                      "the job of the other namespace to run")
        self.admin.create({"apiVersion": "v1", "kind": "ResourceQuota",
                           "metadata": {"name": "team"},
                           "spec": {"hard": {f"requests.{GPU}": "8"}}}, self.namespace)
        self.wait_for(
            lambda: self.admin.get("ResourceQuota", "team", self.namespace).get("status"), 30,
            "the quota to be counted"
        )
        for _ in range(3):
            self.create_job("high", 16,
                            scheduling={"queue": "vision", "priorityClassName": "urgent"})
            self.wait_waiting("high", f"the job's pods request requests.{GPU} 16, but "
                                      "ResourceQuota team of the namespace allows 8")
            self.admin.delete("TrainingJob", "high", self.namespace)
            self.wait_for(lambda: not self.admin.find("TrainingJob", "high", self.namespace), 30,
                          "the job to go")
        low = self.admin.get("TrainingJob", "low", other)
        self.assertTrue(is_true(low, "Running"))
        self.assertEqual(low["status"].get("preemptions", 0), 0)

        self.create_job("high", 16, scheduling={"queue": "vision", "priorityClassName": "urgent"})
        self.wait_waiting("high", "ResourceQuota team of the namespace allows 8")
        self.admin.patch("ResourceQuota", "team", {"spec": {"hard": {f"requests.{GPU}": "16"}}},
                         self.namespace)
        self.wait_running("high", 16)
        self.assertEqual(
            self.admin.get("TrainingJob", "low", other)["status"]["preemptions"], 1)

    def test_three_queues_that_all_want_more_hold_what_is_theirs(self):
        shares = {"a": 12, "b": 6, "c": 2}
        for name, gpus in shares.items():
            self.make_queue(name, gpus, preemption={"acrossQueues": "Borrowed"})
        for name in ("c", "b", "a"):
            for number in range(20):
                self.create_job(f"{name}-{number}", 1, scheduling={"queue": name})

        def held():
            running = [job for job in self.admin.list("TrainingJob", self.namespace)
                       if is_true(job, "Running")]
            return {name: sum(job["spec"]["scheduling"]["queue"] == name for job in running)
                    for name in shares}

        self.wait_for(lambda: held() == shares, 120, f"{shares} to run, not {held()}")
        self.assertEqual(
            sum(condition(job, "Failed") is not None
                for job in self.admin.list("TrainingJob", self.namespace)), 0
        )

    def test_a_job_waits_for_the_priority_class_that_it_names(self):
        self.create_job("early", 1, scheduling={"priorityClassName": "late"})
        self.wait_waiting("early", "priority class late does not exist")
        self.make_class("late", 5)
        self.wait_running("early", 1)


class TwoReleasesTest(ShareCase):
    """Sixteen GPUs, and an operator for each of two namespaces."""

    nodes, gpus = 4, 4
    other_release = "lockstep-younger"

    @classmethod
    def start_more(cls):
        grant_rights(cls.plane)
        grant_rights_of(cls.plane, cls.other_release)
        cls.hollow = HollowNodes(cls.plane, cls.nodes, cls.gpus)
        for name in ("team-a", "team-b"):
            cls.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        cls.operator = Operator(cls.plane, flags=("--namespaces", "team-a")).start()
        wait_for(cls.operator.is_leading, 30, "the older release to lead")
        Operator(cls.plane, number=2, release=cls.other_release,
                 flags=("--namespaces", "team-b")).start()

    def make_namespace(self):
        return "team-b"

    def test_a_queue_is_served_by_one_release_and_the_other_says_so(self):
        self.make_queue("vision", 8, borrowingLimit={GPU: 0})
        self.make_queue("theirs", 8, namespaces=["team-b"])
        self.admin.create(training_job("first", 8, scheduling={"queue": "vision"}), "team-a")
        self.addCleanup(self.admin.delete_all, "TrainingJob", "team-a")
        self.wait_for(lambda: is_true(self.admin.get("TrainingJob", "first", "team-a"), "Running"),
                      60, "the job of the older release to run")
        self.create_job("second", 8, scheduling={"queue": "vision"})
        self.wait_waiting("second", "queue vision is not served: the operator with the lease "
                                    f"{NAMESPACE}/lockstep serves this queue")
        self.create_job("third", 8, scheduling={"queue": "theirs"})
        self.wait_running("third", 8)
        for name in ("vision", "theirs"):
            self.wait_for(lambda: self.admin.get("TrainingQueue", name).get("status", {})
                          .get("used", {}).get(GPU) == "8", 30, f"the use of {name} to be told")


if __name__ == "__main__":
    main()
