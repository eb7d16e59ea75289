"""The operator is killed at every write of a job's creation, of a recovery, and of a deletion."""

from collections import Counter

from jobs import JOB_LABEL, UID_LABEL, JobCase, condition, forget_leader, is_running
from kubernetes_case import main
from operator_process import NAMESPACE, Operator
from processes import wait_for
from proxy import Fault, Proxy

WORKERS = 3
POINTS_MIN = 10  # writes that must be met at least, over all tests


class CrashTest(JobCase):
    nodes, gpus = 2, 4
    points = 0

    @classmethod
    def start_more(cls):
        super().start_more()
        cls.operator.stop()

    @classmethod
    def tearDownClass(cls):
        if cls.points < POINTS_MIN:
            raise AssertionError(f"only {cls.points} writes were met by a kill")

    def setUp(self):
        super().setUp()
        self.proxy = Proxy(self.plane, "operator")
        self.addCleanup(self.proxy.close)
        self.crashing = Operator(self.plane, kubeconfig=self.proxy.kubeconfig)
        self.addCleanup(self.end_operators)

    def end_operators(self):
        for each in (self.crashing, self.operator):
            if each.program is not None:
                each.kill()
        forget_leader(self.plane)

    def test_while_a_job_is_created(self):
        self.at_every_write(self.create)

    def test_while_a_worker_is_replaced(self):
        def fail_a_worker(name):
            pod = self.pods(name)[0]
            self.hollow.end_pod(
                pod["metadata"]["name"], self.namespace, exit_code=137, reason="OOMKilled"
            )

        self.at_every_write(fail_a_worker, prepare=self.create_and_wait, restarts=1)

    def test_while_a_job_is_deleted(self):
        def delete(name):
            self.admin.delete("TrainingJob", name, self.namespace)

        self.at_every_write(delete, prepare=self.create_and_wait, is_gone=True)

    def create(self, name):
        self.create_job(name, WORKERS)

    def create_and_wait(self, name):
        self.create(name)
        self.wait_running(name, WORKERS)

    def at_every_write(self, act, prepare=None, restarts=0, is_gone=False):
        """Lets `act` happen to one job after the other; the operator dies before write 1 of it,
        after write 1, after write 2, and so on, until it gets through without dying. Before a later
        write the server has nearly always what it has after the one before."""
        write, moment = 1, "before"
        while self.crash_at(act, prepare, write, moment, restarts, is_gone):
            write, moment = (1, "after") if moment == "before" else (write + 1, "after")

    def crash_at(self, act, prepare, write, moment, restarts, is_gone):
        """Whether there was such a write, so that the kill happened."""
        name = f"job-{write}-{moment}"
        self.crashing.start()
        if prepare is not None:
            prepare(name)
            self.settle()
        happened = self.arm(write, moment)
        act(name)
        if not self.outcome(name, happened, is_gone, restarts):
            self.crashing.kill()
            return False
        type(self).points += 1
        self.crashing.program.exit_code()
        forget_leader(self.plane)
        self.operator.start()
        self.check(name, restarts, is_gone)
        self.operator.stop()
        forget_leader(self.plane)
        return True

    def arm(self, write, moment):
        """From now on, counts writes other than to the lease and events, and kills at that one."""
        seen, happened = [], []

        def rule(request):
            if not request.is_write or "/leases" in request.path or "/events" in request.path:
                return None
            seen.append(request)
            if len(seen) != write:
                return None
            happened.append(request)
            return Fault(**{moment: self.crashing.kill})

        self.proxy.rule = rule
        return happened

    def settle(self):
        """Waits until the operator writes nothing any more."""
        count = -1
        while count != len(self.proxy.writes):
            count = len(self.proxy.writes)
            self.hold(lambda: None, 0.5)

    def outcome(self, name, happened, is_gone, restarts):
        """True when the operator was killed; False when it did all there was to do."""
        def done_or_dead():
            return not self.crashing.program.is_running() or self.is_done(name, is_gone, restarts)

        wait_for(done_or_dead, 60, f"{name} to be done, or the operator dead")
        if self.crashing.program.is_running():
            self.settle()
        return bool(happened)

    def is_done(self, name, is_gone, restarts):
        if is_gone:
            return not self.admin.find("TrainingJob", name, self.namespace) and not self.pods(name)
        job = self.job(name)
        counted = sum(each["count"] for each in job.get("status", {}).get("restarts", []))
        running = condition(job, "Running")
        return bool(running and running[0] and counted == restarts
                    and len([pod for pod in self.pods(name) if is_running(pod)]) == WORKERS)

    def check(self, name, restarts, is_gone):
        """No pod lost, doubled or orphaned; no counter wrong."""
        wait_for(lambda: self.is_done(name, is_gone, restarts), 60,
                 f"{name} to be as if nothing had happened\n{self.describe_if_there(name)}")
        uids = {job["metadata"]["uid"] for job in self.admin.list("TrainingJob", self.namespace)}
        tasks = Counter()
        for pod in self.pods():
            labels = pod["metadata"]["labels"]
            self.assertIn(labels[UID_LABEL], uids, "an orphan")
            tasks[labels[JOB_LABEL], labels["lockstep.dev/index"]] += 1
        self.assertEqual([task for task, count in tasks.items() if count > 1], [], "doubled")
        if not is_gone:
            status = self.job(name)["status"]
            counted = sum(each["count"] for each in status.get("restarts", []))
            self.assertEqual(counted, restarts)
            self.admin.delete("TrainingJob", name, self.namespace)
            # The operator is there, but the collector alone must do.
        wait_for(lambda: not self.pods(name), 60, f"the pods of {name} to go")
        for kind in ("Service", "Secret"):
            wait_for(lambda kind=kind: not self.owned(kind, name), 60,
                     f"each {kind} of {name} to go")

    def owned(self, kind, name):
        return [each for each in self.admin.list(kind, self.namespace)
                if each["metadata"]["name"].startswith(name)]

    def describe_if_there(self, name):
        return self.describe(name) if self.admin.find("TrainingJob", name, self.namespace) else ""


if __name__ == "__main__":
    main()
