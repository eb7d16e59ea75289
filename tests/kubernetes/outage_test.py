"""The API server is away, forgets its history, or does not know our kinds any more."""

from client import ApiError
from jobs import JobCase, is_running
from kubernetes_case import main
from operator_process import NAMESPACE, Operator
from processes import wait_for
from proxy import Fault, Proxy
from tools import REPOSITORY

# The lease of these tests is short, so that an outage may be: longer than the lease is what counts.
SHORT_LEASE = ("--lease-duration", "6s", "--renew-deadline", "4s", "--retry-period", "1s")
OUTAGE_SECONDS = 8
SCHEMA_SECONDS_MAX = 60  # every half minute the definitions are compared
RECOVERY_SECONDS_MAX = 20  # the longest pause before a watch is tried again is 10


class OutageTest(JobCase):
    changes_plane = True
    nodes, gpus = 2, 8

    @classmethod
    def make_operator(cls):
        cls.proxy = Proxy(cls.plane, "operator")
        cls.addClassCleanup(cls.proxy.close)
        return Operator(cls.plane, kubeconfig=cls.proxy.kubeconfig, flags=SHORT_LEASE)

    def test_an_outage_stops_no_job_and_the_operator_acts_again_soon_after(self):
        self.create_job("untouched", 2)
        before = {pod["metadata"]["uid"] for pod in self.wait_running("untouched", 2)}
        self.create_job("broken", 3)
        victim = self.wait_running("broken", 3)[1]["metadata"]
        self.proxy.rule = lambda request: Fault()
        self.addCleanup(setattr, self.proxy, "rule", lambda request: None)
        self.proxy.cut()
        wait_for(lambda: not self.operator.is_leading(), 10, "the lease to be lost")
        self.hollow.end_pod(victim["name"], self.namespace, exit_code=137, reason="OOMKilled")
        self.create_job("later", 2)
        self.hold(lambda: self.assertTrue(self.operator.program.is_running()), OUTAGE_SECONDS)
        self.assertTrue(self.operator.is_ready())
        self.proxy.rule = lambda request: None
        self.wait_running("later", 2, RECOVERY_SECONDS_MAX)
        after = {pod["metadata"]["uid"] for pod in self.wait_running("untouched", 2)}
        self.assertEqual(after, before)

        def is_repaired():
            now = {pod["metadata"]["uid"] for pod in self.pods("broken") if is_running(pod)}
            return len(now) == 3 and victim["uid"] not in now

        wait_for(is_repaired, RECOVERY_SECONDS_MAX, "the broken gang to run again")

    def test_a_history_that_was_compacted_is_listed_again(self):
        self.create_job("first", 2)
        pods = self.wait_running("first", 2)
        self.plane.compact_history()
        self.plane.restart_api_server()
        self.create_job("second", 2)
        self.wait_running("second", 2)
        victim = pods[0]["metadata"]
        self.admin.delete("Pod", victim["name"], self.namespace, gracePeriodSeconds=0)

        def replaced():
            uids = {pod["metadata"]["uid"] for pod in self.pods("first")}
            return len(uids) == 2 and victim["uid"] not in uids

        wait_for(replaced, RECOVERY_SECONDS_MAX, "a replacement")

    def test_an_operator_that_was_away_catches_up(self):
        self.create_job("first", 2)
        self.wait_running("first", 2)
        self.operator.stop()
        for pod in self.pods("first"):
            self.hollow.end_pod(pod["metadata"]["name"], self.namespace)
        self.create_job("second", 2)
        self.operator.start()
        self.wait_condition("first", "Succeeded")
        self.wait_running("second", 2)

    def test_refusals_for_too_many_requests_are_waited_out(self):
        refused = []

        def rule(request):
            if request.is_write and "/leases" not in request.path and len(refused) < 5:
                refused.append(request.path)
                body = b'{"kind": "Status", "reason": "TooManyRequests", "code": 429}'
                return Fault(answer=(429, {"Retry-After": "1"}, body))
            return None

        self.proxy.rule = rule
        self.addCleanup(setattr, self.proxy, "rule", lambda request: None)
        self.create_job("job", 2)
        self.wait_running("job", 2)
        self.assertEqual(len(refused), 5)

    def test_a_status_that_is_refused_makes_the_operator_unready(self):
        """The job cannot tell of it."""

        def rule(request):
            path = request.path.partition("?")[0]
            if request.is_write and path.endswith("/refused/status"):
                body = b'{"kind": "Status", "reason": "Forbidden", "code": 403, ' \
                       b'"message": "a policy denies it"}'
                return Fault(answer=(403, {}, body))
            return None

        self.proxy.rule = rule
        self.addCleanup(setattr, self.proxy, "rule", lambda request: None)
        self.create_job("refused", 2)
        wait_for(lambda: self.operator.trouble("status-writes"), 30, "the operator to say so")
        said = self.operator.trouble("status-writes")
        self.assertIn(f"the status of 1 job (the first is {self.namespace}/refused: a policy", said)
        self.assertFalse(self.operator.is_ready())
        self.proxy.rule = lambda request: None
        wait_for(self.operator.is_ready, 60, "the status to be written")

    def test_a_definition_that_is_older_is_told_of_field_by_field(self):
        """The API server drops what it does not know, without a word."""
        schema = "/spec/versions/0/schema/openAPIV3Schema/properties"
        self.addCleanup(self.renew_definitions)
        self.admin.patch(
            "CustomResourceDefinition", "trainingjobs.lockstep.dev",
            [{"op": "remove", "path": f"{schema}/status/properties/progress"}], how="json",
        )
        wait_for(lambda: self.operator.trouble("schema"), SCHEMA_SECONDS_MAX, "it to notice")
        self.assertIn("TrainingJob lacks status.progress; apply", self.operator.trouble("schema"))
        missing = self.operator.metric("lockstep_crd_missing_fields", kind="TrainingJob")
        self.assertEqual(missing, 1)
        wait_for(lambda: self.events("DefinitionsTooOld"), 10, "an Event")
        self.renew_definitions()
        wait_for(self.operator.is_ready, SCHEMA_SECONDS_MAX, "it to be ready again")

    def renew_definitions(self):
        self.plane.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", REPOSITORY / "crds"
        )

    def events(self, reason):
        """Those about the operator."""
        return [event for event in self.admin.list("Event", NAMESPACE)
                if event["reason"] == reason]

    def test_zz_a_kind_that_was_removed_comes_back(self):
        """Last, by its name: every job goes with the kind."""
        self.create_job("gone", 2)
        self.wait_running("gone", 2)
        for crd in REPOSITORY.glob("crds/*.yaml"):
            self.plane.kubectl("delete", "--wait", "-f", crd)
        wait_for(lambda: not self.pods(), 60, "the pods to go with their job")
        wait_for(lambda: not self.operator.get("/readyz/trainingjobs"), 30, "it to say so")
        self.plane.apply(REPOSITORY / "crds")
        self.plane.wait_for_kinds()
        wait_for(lambda: self.try_to_create("back"), 30, "the kind to be served again")
        self.wait_running("back", 2, RECOVERY_SECONDS_MAX)

    def try_to_create(self, name):
        try:
            return self.create_job(name, 2)
        except ApiError:
            return None


if __name__ == "__main__":
    main()
