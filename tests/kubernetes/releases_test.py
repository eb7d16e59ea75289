"""Two releases of the operator that serve the same jobs: never do both lead."""

import datetime
import time

from control_plane import CONTROL_PLANE_TOOLS
from kubernetes_case import KubernetesCase, main
from operator_process import NAMESPACE, Operator, grant_rights, grant_rights_of
from operator_process import require_operator
from tools import BIN

YOUNGER = "lockstep-younger"
PREDECESSOR = "lockstep-operator"  # the lease of charts that did not name it after the release
LEAD_SECONDS = 15  # from the start of a process
GIVE_WAY_SECONDS = 30  # a leader looks, its writes end, its lease says so, the other looks
SILENT_SECONDS = 40  # the lease has not changed for as long as it lasts, and for two looks
STAY_SECONDS = 12  # longer than a leader waits between two looks, 10


class ReleasesTest(KubernetesCase):
    tools = (*CONTROL_PLANE_TOOLS, "helm")
    requirements = (require_operator,)

    @classmethod
    def start_more(cls):
        grant_rights(cls.plane)
        grant_rights_of(cls.plane, YOUNGER)

    def start(self, **options):
        operator = Operator(self.plane, **options).start(wait=False)
        self.addCleanup(lambda: operator.program.is_running() and operator.stop())
        return operator

    def test_a_younger_release_gives_way_whenever_the_older_one_comes_back(self):
        older = self.start()
        self.wait_for(older.is_leading, LEAD_SECONDS, "the first release to lead")
        younger = self.start(number=2, release=YOUNGER)
        self.hold_while(older, younger, STAY_SECONDS)
        self.assertFalse(younger.is_ready(), "helm install --wait is to fail")
        older.stop()
        self.wait_for(younger.is_leading, LEAD_SECONDS, "the only release to lead")
        older.start(wait=False)

        def has_come_back():
            # In this order: who leads at the first look still does at the second, unless it ended.
            one, other = older.is_leading(), younger.is_leading()
            self.assertFalse(one and other, "both releases lead")
            return one

        self.wait_for(has_come_back, LEAD_SECONDS + GIVE_WAY_SECONDS, "the older release to lead")
        self.hold_while(older, younger, STAY_SECONDS)
        self.assertTrue(older.is_ready())
        self.assertFalse(younger.is_ready())

    def test_releases_whose_clocks_differ_do_not_both_lead(self):
        older = self.start()
        self.wait_for(older.is_leading, LEAD_SECONDS, "the first release to lead")
        ahead = f"LD_PRELOAD={BIN / 'liblockstep_test_clock_ahead.so'}"
        younger = self.start(number=2, release=YOUNGER, environment=[ahead])
        self.hold_while(older, younger, STAY_SECONDS)
        older.kill()
        self.wait_for(younger.is_leading, SILENT_SECONDS, "the only release to lead")

    def test_an_operator_of_the_chart_before_ends_first(self):
        self.admin.create({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": PREDECESSOR, "namespace": NAMESPACE},
            "spec": {"holderIdentity": "pod-of-before", "leaseDurationSeconds": 15,
                     "renewTime": _time()},
        })
        operator = self.start()
        self.wait_for(operator.is_ready, LEAD_SECONDS, "an upgrade to go on")
        deadline = time.monotonic() + STAY_SECONDS
        while time.monotonic() < deadline:
            self.assertFalse(operator.is_leading(), "the operator of before leads still")
            self.admin.patch("Lease", PREDECESSOR, {"spec": {"renewTime": _time()}}, NAMESPACE)
            time.sleep(0.5)
        self.admin.patch("Lease", PREDECESSOR, {"spec": {"holderIdentity": ""}}, NAMESPACE)
        self.wait_for(operator.is_leading, LEAD_SECONDS, "it to lead")

    def hold_while(self, leader, other, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.assertTrue(leader.is_leading())
            self.assertFalse(other.is_leading(), "both releases lead")
            time.sleep(0.5)


def _time():
    now = datetime.datetime.now(datetime.timezone.utc)
    return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


if __name__ == "__main__":
    main()
