"""Two operators: at any time at most one of them writes, and the other takes over soon."""

import datetime
import signal
import threading
import time

from jobs import JobCase, is_true
from kubernetes_case import main
from operator_process import LEASE, NAMESPACE, Operator
from processes import wait_for
from proxy import Fault, Proxy
from tools import BIN

TAKE_OVER_SECONDS = 16  # the leader is silent
HAND_OVER_SECONDS = 2  # the leader ends politely
RESTART_SECONDS = 8  # its process begins and reads the cluster; half of a lease
LATE_SECONDS = 4  # how much later on a busy machine: a lease that has to run out takes 15
EVENT_SECONDS = 20  # longer than anybody may wait for one
CLOCK_SECONDS = 4  # two renewals, which show the other's calendar
KEY_SECONDS = 15  # who stands by looks every 10
STRANGER_SECONDS = 5  # how long the lease of somebody else lasts


class LeaderTest(JobCase):
    options = {"audit": True}
    nodes, gpus = 2, 8

    @classmethod
    def start_more(cls):
        super().start_more()
        # No two clocks of a cluster agree; these differ by an hour.
        clock = f"LD_PRELOAD={BIN / 'liblockstep_test_clock_ahead.so'}"
        cls.second = Operator(cls.plane, number=2, environment=[clock])
        cls.start_second()

    def setUp(self):
        super().setUp()
        for each in (self.operator, self.second):
            if not each.program.is_running():
                self.start_second() if each is self.second else each.start()

    @classmethod
    def start_second(cls):
        """It is never ready, as its clock is wrong."""
        cls.second.start(wait=False)
        wait_for(lambda: cls.second.get("/readyz?exclude=clock"), 30, "the second operator")

    def test_another_takes_over_from_a_leader_that_stands_still(self):
        first = self.leader()
        other = self.second if first is self.operator else self.operator
        self.create_job("before", 2)
        self.wait_running("before", 2)
        first.pause()
        self.addCleanup(first.resume)
        started = time.monotonic()
        self.create_job("during", 2)
        self.wait_running("during", 2, TAKE_OVER_SECONDS + 10)
        self.assertLessEqual(time.monotonic() - started, TAKE_OVER_SECONDS + LATE_SECONDS)
        self.assertEqual(self.leader(), other)
        first.resume()
        resumed = datetime.datetime.now(datetime.timezone.utc)
        for index in range(5):
            self.create_job(f"after-{index}", 1)
        for index in range(5):
            self.wait_running(f"after-{index}", 1)
        self.assertEqual(self.writers_since(resumed, "after-"), {other.user})
        self.assertTrue(first.program.is_running(), "who lost the lease stands by")
        wait_for(lambda: not first.is_leading(), 15, "it to notice")

    def test_leaders_whose_clocks_differ_leave_each_other_alone(self):
        first = self.leader()
        transitions = self.lease()["spec"]["leaseTransitions"]
        self.create_job("before", 2, runPolicy={"activeDeadlineSeconds": 600})
        self.wait_running("before", 2)
        self.hold(lambda: self.assertTrue(first.is_leading()), CLOCK_SECONDS)
        self.assertEqual(self.lease()["spec"]["leaseTransitions"], transitions)
        first.stop()
        self.create_job("after", 2)
        self.wait_running("after", 2)
        self.wait_running("before", 2)
        self.assertEqual(self.job("before")["status"].get("restarts", []), [])

    def test_a_leader_whose_clock_is_ahead_ends_no_job_early_and_says_so(self):
        """Deadlines and times to live came at once."""
        self.second.stop()
        wait_for(self.operator.is_leading, TAKE_OVER_SECONDS, "the right one to lead")
        times = {"activeDeadlineSeconds": 600, "ttlSecondsAfterFinished": 600}
        self.create_job("runs", 1, runPolicy=times)
        self.wait_running("runs", 1)
        self.create_job("ended", 1, runPolicy=times)
        for pod in self.wait_running("ended", 1):
            self.hollow.end_pod(pod["metadata"]["name"], self.namespace)
        self.wait_condition("ended", "Succeeded")
        self.start_second()
        self.operator.stop()
        wait_for(self.second.is_leading, TAKE_OVER_SECONDS, "the one whose clock is ahead to lead")
        self.create_job("later", 1)
        self.wait_running("later", 1)  # all jobs have been looked at
        self.assertFalse(is_true(self.job("runs"), "Failed"))
        self.assertTrue(self.admin.find("TrainingJob", "ended", self.namespace))
        self.assertIn("ahead of the API server's", self.second.trouble("clock"))
        self.assertGreater(self.second.metric("lockstep_clock_offset_seconds"), 3590)

    def test_another_takes_over_at_once_from_a_leader_that_leaves(self):
        first = self.leader()
        started = time.monotonic()
        self.assertEqual(first.stop(), 0)
        self.create_job("after", 2)
        self.wait_running("after", 2)
        self.assertLessEqual(time.monotonic() - started, HAND_OVER_SECONDS + LATE_SECONDS)

    def test_a_process_that_died_is_followed_at_once_by_the_next_one_in_its_pod(self):
        for each in (self.operator, self.second):
            each.stop()
        pod = Operator(self.plane, environment=["POD_NAME=lockstep-0", "POD_UID=uid-1"]).start()
        self.addCleanup(lambda: pod.program.is_running() and pod.stop())
        wait_for(pod.is_leading, TAKE_OVER_SECONDS, "the only one to lead")
        self.create_job("before", 2)
        self.wait_running("before", 2)
        pod.kill()
        started = time.monotonic()
        pod.start()
        wait_for(pod.is_leading, TAKE_OVER_SECONDS, "the next one in the pod to lead")
        self.assertLessEqual(time.monotonic() - started, RESTART_SECONDS)
        self.assertTrue(self.lease()["spec"]["holderIdentity"].startswith("lockstep-0_uid-1_"))
        self.create_job("after", 2)
        self.wait_running("after", 2)

    def test_a_leader_that_leaves_lets_nobody_wait_for_its_events(self):
        for each in (self.operator, self.second):
            each.stop()
        asked, is_over = threading.Event(), threading.Event()

        def hang():
            asked.set()
            is_over.wait(EVENT_SECONDS)

        proxy = Proxy(self.plane, self.operator.user)
        self.addCleanup(proxy.close)
        self.addCleanup(is_over.set)
        proxy.rule = lambda request: Fault(before=hang) \
            if request.is_write and "/events" in request.path else None
        between = Operator(self.plane, kubeconfig=proxy.kubeconfig).start()
        self.addCleanup(lambda: between.program.is_running() and between.stop())
        wait_for(between.is_leading, TAKE_OVER_SECONDS, "the only one to lead")
        self.start_second()
        self.create_job("job", 2)
        self.assertTrue(asked.wait(10), "no Event was sent")
        between.program.signal(signal.SIGTERM)
        wait_for(self.second.is_leading, HAND_OVER_SECONDS, "the other to lead")
        is_over.set()
        self.assertEqual(between.program.exit_code(EVENT_SECONDS), 0)

    def test_a_leader_whose_lease_was_taken_stands_by_and_nobody_writes_meanwhile(self):
        first = self.leader()
        lease = self.lease()
        self.admin.patch("Lease", lease["metadata"]["name"], {
            "spec": {"holderIdentity": "somebody-else", "leaseDurationSeconds": STRANGER_SECONDS},
        }, NAMESPACE)
        wait_for(lambda: not first.is_leading(), 15, "it to notice")
        noticed = datetime.datetime.now(datetime.timezone.utc)
        self.create_job("later", 1)
        self.wait_running("later", 1, STRANGER_SECONDS + TAKE_OVER_SECONDS)
        self.assertEqual(self.writers_since(noticed, "later"), {self.leader().user})
        self.assertTrue(first.program.is_running())

    def test_a_replica_that_stands_by_says_that_it_could_not_lead(self):
        first = self.leader()
        other = self.second if first is self.operator else self.operator
        wait_for(lambda: other.get("/readyz/can-lead"), KEY_SECONDS, "it to be able to lead")
        data = self.admin.get("Secret", f"{LEASE}-key", NAMESPACE)["data"]
        self.make_key(stringData={"key": "short"})
        self.addCleanup(self.make_key, data=data)
        wait_for(lambda: not other.get("/readyz/can-lead"), KEY_SECONDS, "it to know of the key")
        self.assertTrue(first.is_leading())
        wait_for(lambda: not first.get("/readyz/can-lead"), KEY_SECONDS, "the leader to know")
        self.make_key(data=data)
        wait_for(lambda: other.get("/readyz/can-lead"), KEY_SECONDS, "it to know of the new one")

    def test_a_leader_puts_a_key_back_that_somebody_has_deleted(self):
        self.leader()
        key = self.admin.get("Secret", f"{LEASE}-key", NAMESPACE)["data"]
        self.admin.delete("Secret", f"{LEASE}-key", NAMESPACE)
        found = wait_for(lambda: self.admin.find("Secret", f"{LEASE}-key", NAMESPACE), KEY_SECONDS,
                         "the key to come back")
        self.assertEqual(found["data"], key)

    def make_key(self, **content):
        name = f"{LEASE}-key"
        self.admin.delete("Secret", name, NAMESPACE)
        self.admin.create({"apiVersion": "v1", "kind": "Secret",
                           "metadata": {"name": name, "namespace": NAMESPACE}, **content},
                          NAMESPACE)

    def lease(self):
        leases = self.admin.list("Lease", NAMESPACE)
        self.assertEqual(len(leases), 1)
        return leases[0]

    def leader(self):
        """The one that renews the lease; the last writer of it, by the audit log."""
        users = (self.operator.user, self.second.user)

        def last_writer():
            for event in reversed(self.plane.audit_events()):
                user, reference = event["user"]["username"], event["objectRef"]
                if user in users and reference["resource"] == "leases" \
                        and reference.get("namespace") == NAMESPACE \
                        and event["responseStatus"]["code"] < 300:
                    return user
            return None

        user = wait_for(last_writer, 30, "a leader")
        leader = self.operator if user == self.operator.user else self.second
        wait_for(leader.is_leading, 10, "the holder of the lease to act")
        return leader

    def writers_since(self, moment, jobs):
        """The operators that changed something other than leases, and were allowed to try.

        Of Events only those about `jobs`, a start of names, count: who led before may still tell
        of what was done before.
        """
        users = (self.operator.user, self.second.user)
        return {
            event["user"]["username"]
            for event in self.plane.audit_events()
            if event["user"]["username"] in users and _moment(event) > moment
            and _is_act(event["objectRef"], jobs)
        }


def _is_act(reference, jobs):
    if reference["resource"] == "events":
        return reference["name"].startswith(jobs)
    return reference["resource"] != "leases"


def _moment(event):
    """When the request arrived."""
    text = event["requestReceivedTimestamp"].replace("Z", "+00:00")
    return datetime.datetime.fromisoformat(text)


if __name__ == "__main__":
    main()
