"""What others do to a running job's objects: a copy of a worker, a finalizer, a newer version."""

import time
import unittest

from product import UNFORGIVING, ProductCase  # lets us import from other folders
from jobs import is_leaving
from processes import wait_for

KIND = "trainingjobs.lockstep.dev"
STATUS_SCHEMA = "/spec/versions/0/schema/openAPIV3Schema/properties/status"
FINALIZER = "example.com/holds-it"
COMPRESSED = {"type": "Compressed", "status": "True", "reason": "New", "message": "it is"}
HOLD_SECONDS = 5


class StrangerTest(ProductCase):
    def test_what_others_do_to_a_running_job_costs_it_nothing(self):
        self.let_status_hold_anything()
        training = self.train(epochs=300, run_policy=UNFORGIVING)
        command = self.start_command("command", 2)
        command.wait_for("Running", 60)
        training.wait_steps()
        before = training.containers()
        self.copy(training.pods()["worker-1"])
        future = self.write_as_a_newer_version(training)
        self.product.kill_container(self.product.operator_pod())
        self.assert_goes_on(training, before)
        self.assert_kept(training, future)
        self.delete_what_a_finalizer_holds(training, command)
        copy = self.admin.get("Pod", "copy", self.namespace)
        self.assertFalse(is_leaving(copy))
        self.assertEqual(copy["metadata"]["labels"]["lockstep.dev/index"], "1")

    def copy(self, pod):
        """It starts as the pod did: with the identity, the key and the name of a running rank."""
        image = pod["spec"]["containers"][0]["image"]
        self.plane.kubectl(
            "debug", pod["metadata"]["name"], "-n", self.namespace, "--copy-to=copy",
            "--keep-labels", "--share-processes=false", f"--set-image=*={image}")

        def has_started():
            status = self.admin.get("Pod", "copy", self.namespace)["status"]
            return status.get("containerStatuses", [{}])[0].get("containerID")

        wait_for(has_started, 30, "the copy to start")

    def let_status_hold_anything(self):
        """As the definition of a version that knows more fields does."""
        path = f"{STATUS_SCHEMA}/x-kubernetes-preserve-unknown-fields"
        self.admin.patch("CustomResourceDefinition", KIND,
                         [{"op": "add", "path": path, "value": True}], how="json")
        self.addCleanup(self.admin.patch, "CustomResourceDefinition", KIND,
                        [{"op": "remove", "path": path}], how="json")

    def write_as_a_newer_version(self, training):
        conditions = training.job()["status"]["conditions"]
        future = {"invented": {"later": [1, 2]},
                  "conditions": [*conditions, {**COMPRESSED, "invented": "too"}],
                  "restarts": [{"cause": "cosmic_rays", "count": 2}]}
        self.admin.patch("TrainingJob", training.name, {"status": future}, self.namespace,
                         subresource="status")
        return future

    def assert_kept(self, training, future):
        status = training.wait_for("Running")["status"]
        self.assertEqual(status["invented"], future["invented"])
        self.assertEqual(status["restarts"], future["restarts"])
        (kept,) = [each for each in status["conditions"] if each["type"] == COMPRESSED["type"]]
        self.assertEqual({key: kept[key] for key in COMPRESSED}, COMPRESSED)

    def delete_what_a_finalizer_holds(self, *jobs):
        held = [job.pods()["worker-1"]["metadata"]["name"] for job in jobs]
        for name in held:
            self.hold(name)
            self.admin.delete("Pod", name, self.namespace)
        for job in jobs:
            job.wait(lambda: self.is_whole_without(job, held), 60, "a replacement")
        jobs[0].wait_steps()
        for job in jobs:
            self.assertEqual(self.incidents(job), [])
            job.wait_for("Running", 60)
        for name in held:
            self.assertTrue(is_leaving(self.admin.get("Pod", name, self.namespace)))

    def hold(self, name):
        self.admin.patch("Pod", name, {"metadata": {"finalizers": [FINALIZER]}}, self.namespace)
        self.addCleanup(self.admin.patch, "Pod", name, {"metadata": {"finalizers": None}},
                        self.namespace)

    def is_whole_without(self, job, held):
        return self.all_run(job) and not set(held) & set(job.containers())

    def assert_goes_on(self, training, before):
        """For as long as whoever is wrong about the job would take to show it."""
        began = self.step(training)
        time.sleep(HOLD_SECONDS)
        wait_for(lambda: self.step(training) > began, 20, f"a step beyond {began}")
        self.assertEqual({name: training.containers().get(name) for name in before}, before)
        self.assertEqual(training.job()["status"].get("incidents", []), [])

    def step(self, training):
        return training.job()["status"].get("progress", {}).get("step", 0)


if __name__ == "__main__":
    unittest.main()
