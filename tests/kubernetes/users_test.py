"""What users do to a job's objects, and manifests that only the operator can refuse."""

import re
import time

from client import ApiError
from jobs import JobCase, condition, foreign_pod, is_running, is_true
from kubernetes_case import main
from processes import wait_for
from tools import REPOSITORY

NAME_LENGTH_MAX = 63  # of a label's value, and of a host name
INVALID = REPOSITORY / "crds" / "examples" / "invalid"


def built_in_training(name, workers):
    """A job of the built-in trainer; on hollow nodes nobody trains."""
    return {
        "apiVersion": "lockstep.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "roles": [{"name": "worker", "replicas": workers, "gpus": 1}],
            "training": {
                "model": {"inputShape": [4], "layers": [{"type": "Dense", "units": 1}]},
                "loss": {"type": "MeanSquaredError"},
                "optimizer": {"type": "SGD"},
                "dataset": {"format": "idx", "images": "images.gz", "labels": "labels.gz"},
            },
        },
    }


class UsersTest(JobCase):
    nodes, gpus = 2, 4

    def test_a_dead_pod_leaves_its_place_in_a_quota_to_its_successor(self):
        self.admin.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "two"},
                           "spec": {"hard": {"count/pods": "2"}}}, self.namespace)
        wait_for(lambda: self.admin.get("ResourceQuota", "two", self.namespace)
                 .get("status", {}).get("hard"), 30, "the quota to hold")
        self.admin.create(built_in_training("trains", 2), self.namespace)
        self.wait_running("trains", 2)
        self.hollow.end_pod("trains-worker-1", self.namespace, exit_code=137)
        wait_for(lambda: self.names("trains") == ["trains-worker-0", "trains-worker-1-r1"], 60,
                 lambda: f"the successor alone\n{self.describe('trains')}")
        self.wait_running("trains", 2)
        self.assertEqual(self.job("trains")["status"].get("suspectNodes", []), [])

    def test_a_deleted_service_comes_back(self):
        self.create_job("job", 2)
        self.wait_running("job", 2)
        uid = self.service("job")["metadata"]["uid"]
        self.admin.delete("Service", "job", self.namespace)
        found = wait_for(lambda: self.service("job"), 20, "the service to come back")
        self.assertNotEqual(found["metadata"]["uid"], uid)
        self.assertEqual(found["spec"]["clusterIP"], "None")

    def test_an_edited_service_is_put_right(self):
        self.create_job("job", 2)
        self.wait_running("job", 2)
        before = self.service("job")["spec"]["selector"]
        self.admin.patch("Service", "job", {"spec": {"selector": {"app": "mine"}}}, self.namespace)
        wait_for(lambda: self.service("job")["spec"]["selector"] == before, 20,
                 "the service to select the job's pods, and nothing more")

    def test_a_service_of_somebody_else_is_left_alone_and_named(self):
        theirs = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "job"},
                  "spec": {"selector": {"app": "theirs"}, "ports": [{"port": 80}]}}
        self.admin.create(theirs, self.namespace)
        self.create_job("job", 2)
        self.wait_waiting("job", "service job", "does not belong to this job")
        self.assertNotIn("StatusOverwritten", [why for why, *_ in self.events("job")])
        self.assertEqual(self.service("job")["spec"]["selector"], {"app": "theirs"})
        self.assertEqual(self.pods("job"), [])

    def test_a_pod_of_somebody_else_with_our_name_is_left_alone(self):
        self.admin.create(foreign_pod("job-worker-1", self.hollow.names[0]), self.namespace)
        uid = self.admin.get("Pod", "job-worker-1", self.namespace)["metadata"]["uid"]
        self.create_job("job", 3)
        self.hold(lambda: self.assertEqual(
            self.admin.get("Pod", "job-worker-1", self.namespace)["metadata"]["uid"], uid), 2)
        self.admin.delete("Pod", "job-worker-1", self.namespace, gracePeriodSeconds=0)
        self.wait_running("job", 3)

    def test_a_pod_whose_label_was_taken_off_stays_the_jobs(self):
        self.create_job("job", 2)
        uids = self.uids(self.wait_running("job", 2))
        for value in (None, "another"):
            self.admin.patch("Pod", "job-worker-1",
                             {"metadata": {"labels": {"lockstep.dev/job": value}}}, self.namespace)
            wait_for(lambda: self.label_of("job-worker-1") == "job", 20, "its label to come back")
        self.assertEqual(self.uids(self.wait_running("job", 2)), uids)
        self.assertEqual(self.job("job")["status"].get("restarts", []), [])

    def label_of(self, pod):
        labels = self.admin.get("Pod", pod, self.namespace)["metadata"].get("labels", {})
        return labels.get("lockstep.dev/job")

    def test_a_pod_that_was_taken_from_a_command_is_named_and_has_no_copy_beside_it(self):
        self.create_job("job", 2)
        self.wait_running("job", 2)
        self.admin.patch("Pod", "job-worker-1", {"metadata": {"ownerReferences": None}},
                         self.namespace)
        self.wait_waiting("job", "pod job-worker-1", "ownerReference")
        self.admin.delete("Pod", "job-worker-1", self.namespace, gracePeriodSeconds=0)
        self.wait_running("job", 2)

    def test_a_training_without_a_volume_is_resized_when_its_loss_is_accepted(self):
        self.admin.create(built_in_training("job", 2), self.namespace)
        uids = self.uids(self.wait_running("job", 2))
        self.admin.patch("TrainingJob", "job", {"status": {"progress": {"step": 4200}}},
                         self.namespace, subresource="status")
        self.plane.kubectl("scale", "-n", self.namespace, "tj/job", "--replicas=3")
        words = self.wait_question("step 4200 would be lost")
        self.hold(lambda: self.assertEqual(self.uids(self.pods("job")), uids), 2)
        self.plane.kubectl("scale", "-n", self.namespace, "tj/job", "--replicas=2")
        wait_for(lambda: is_true(self.job("job"), "Resized"), 20, "the question to be taken back")
        self.plane.kubectl("scale", "-n", self.namespace, "tj/job", "--replicas=3")
        accept = re.search(r"kubectl (annotate .*)$", self.wait_question("would be lost")).group(1)
        self.assertNotIn(accept, words)  # it accepts this change, and not the one before
        self.plane.kubectl(*accept.split())
        self.assertTrue(uids.isdisjoint(self.uids(self.wait_running("job", 3))))

    def wait_question(self, words):
        """Waits until a job asks whether progress may be lost, and returns its words."""
        def asked():
            found = condition(self.job("job"), "Resized")
            return found and not found[0] and words in found[2] and found[2]

        return wait_for(asked, 20, f"a question with {words!r}")

    def test_a_size_that_the_cluster_never_holds_does_not_end_the_gang_that_runs(self):
        self.create_job("job", 2)
        uids = self.uids(self.wait_running("job", 2))
        self.plane.kubectl("scale", "-n", self.namespace, "tj/job", "--replicas=9")
        wait_for(lambda: (condition(self.job("job"), "Resized") or [None] * 2)[1] == "WouldNotFit",
                 20, "the size to be refused")
        self.hold(lambda: self.assertEqual(self.uids(self.pods("job")), uids), 2)
        self.assertIn("needs 9 GPUs, 8 free", self.job("job")["status"]["reason"])
        self.plane.kubectl("scale", "-n", self.namespace, "tj/job", "--replicas=8")
        self.assertTrue(uids.isdisjoint(self.uids(self.wait_running("job", 8))))

    def test_a_status_that_somebody_wiped_is_taken_up_from_the_pods(self):
        self.create_job("job", 2)
        uids = self.uids(self.wait_running("job", 2))
        self.admin.patch("TrainingJob", "job", [{"op": "replace", "path": "/status", "value": {}}],
                         self.namespace, subresource="status", how="json")
        wait_for(lambda: condition(self.job("job"), "Created")[1] == "StatusLost"
                 if condition(self.job("job"), "Created") else None, 20, "the loss to be told")
        self.assertEqual(self.uids(self.wait_running("job", 2)), uids)
        wait_for(lambda: [1 for why, *_ in self.events("job") if why == "StatusLost"], 20,
                 "an Event")

    def uids(self, pods):
        return {pod["metadata"]["uid"] for pod in pods}

    def test_a_suspended_job_gives_its_room_back_and_resumes(self):
        self.create_job("job", 8)
        self.wait_running("job", 8)
        self.suspend("job", True)
        wait_for(lambda: not self.pods("job"), 30, "the pods to go")
        self.suspend("job", False)
        self.wait_running("job", 8)

    def test_a_quota_that_is_exceeded_is_named_and_nothing_stands_half(self):
        self.admin.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
                           "spec": {"hard": {"pods": "2"}}}, self.namespace)

        def is_counted():
            quota = self.admin.get("ResourceQuota", "few", self.namespace)
            return quota["status"].get("used")

        wait_for(is_counted, 20, "the quota to be counted")
        self.create_job("job", 4)
        self.wait_waiting("job", "exceeded quota: few")
        wait_for(lambda: not self.pods("job"), 30, "the gang to be taken back")
        self.admin.delete("ResourceQuota", "few", self.namespace)
        self.wait_running("job", 4, 90)

    def test_the_longest_names_work(self):
        """A pod's host name, JOB-worker-0, ends at 63 characters; its successor's is longer."""
        longest = NAME_LENGTH_MAX - len("-worker-0")
        with self.assertRaises(ApiError) as refused:
            self.create_job("n" * (longest + 1), 1)
        self.assertIn("of more than 63 characters; use a shorter name", refused.exception.message)
        name = "n" * longest
        self.create_job(name, 1)
        pod = self.wait_running(name, 1)[0]
        self.hollow.end_pod(pod["metadata"]["name"], self.namespace, exit_code=137,
                            reason="OOMKilled")

        def replaced():
            running = [each for each in self.pods(name) if is_running(each)]
            return running and running[0]["metadata"]["uid"] != pod["metadata"]["uid"]

        wait_for(replaced, 30, "a replacement under a long name")

    def test_a_slip_in_a_template_is_refused_by_name(self):
        volumes = [{"name": "work", "persistentVolumeClaims": {"claimName": "checkpoints"}}]
        self.create_job("slip", 1, pod_spec={"volumes": volumes})
        job = self.wait_condition("slip", "Failed", 20)
        self.assertIn("persistentVolumeClaims", condition(job, "Failed")[2])
        self.assertEqual(self.pods("slip"), [])

    def test_what_only_the_operator_can_refuse_fails_once_and_for_good(self):
        files = [path for path in sorted(INVALID.glob("*.yaml"))
                 if "\n# only-operator\n" in path.read_text()]
        self.assertTrue(files)
        for path in files:
            with self.subTest(path.name):
                expected = path.read_text().splitlines()[0].removeprefix("# expect: ")
                self.plane.kubectl("create", "-n", self.namespace, "-f", path)
                name = self.admin.list("TrainingJob", self.namespace)[0]["metadata"]["name"]
                job = self.wait_condition(name, "Failed", 20)
                self.assertIn(expected, condition(job, "Failed")[2])
                self.assertEqual([each["type"] for each in job["status"]["conditions"]
                                  if each["status"] == "True"], ["Failed"])
                self.assert_stays_failed(name, job["status"])
                self.admin.delete("TrainingJob", name, self.namespace)

    def assert_stays_failed(self, name, status):
        """Whatever is edited: the conditions stay; the last word only says that it is too late."""
        too_late = "; a later change of spec has no effect"

        def without_note(conditions):
            return [{**each, "message": each["message"].split(too_late)[0]} for each in conditions]

        edit = {"metadata": {"annotations": {"edited": str(time.monotonic())}},
                "spec": {"runPolicy": {"backoffLimit": 2}}}
        generation = self.admin.patch("TrainingJob", name, edit,
                                      self.namespace)["metadata"]["generation"]
        wait_for(lambda: self.job(name)["status"].get("observedGeneration") == generation, 20,
                 "the edit to be seen")
        conditions = self.job(name)["status"]["conditions"]
        self.assertEqual(without_note(conditions), without_note(status["conditions"]))
        self.assertTrue(any(too_late in each["message"] for each in conditions), conditions)
        self.assertEqual(self.pods(name), [])

    def service(self, name):
        return self.admin.find("Service", name, self.namespace)

    def suspend(self, name, wish):
        self.admin.patch("TrainingJob", name, {"spec": {"runPolicy": {"suspend": wish}}},
                         self.namespace)


if __name__ == "__main__":
    main()
