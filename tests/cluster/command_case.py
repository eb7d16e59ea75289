"""A program of the user's own in an image of the user's own, which knows nothing of Lockstep."""

import json
import unittest

from product import ProductCase  # lets us import from other folders
from images import BASE
from jobs import condition, training_job
from tools import REPOSITORY
from training import Training

EXAMPLE = REPOSITORY / "examples" / "any-command.yaml"

# Says what it was told, and ends with the code that somebody leaves it.
PROGRAM = """
echo "of $WORLD_SIZE: $TF_CONFIG"
until [ -e /tmp/code ]; do sleep 0.1; done
exit $(cat /tmp/code)
"""


# What a secret holds, one container fetches and a sidecar goes on telling comes together here.
FETCH = 'echo "for $TOKEN" > /data/fetched'
TELL = "trap exit TERM; while :; do echo here > /data/told; sleep 0.1 & wait $!; done"
COMPARE = """
until [ -e /data/told ]; do sleep 0.1; done
echo "$POD $HUB_token $(cat /data/fetched)"
[ "$HUB_token" = hidden ] && [ "$(cat /data/fetched)" = "for hidden" ]
"""


class CommandTest(ProductCase):
    def test_ranks_know_each_other_start_anew_after_a_kill_and_succeed(self):
        training = self.start(self.product.user_image)
        self.wait_start(training)
        before = training.pods()
        self.product.kill_container(before["worker-1"])
        training.wait(lambda: len(training.pods()) == 3 and not _uids(before) & _uids(
            training.pods()), 60, "a new gang: nobody but the runtime's trainer meets again")
        self.wait_start(training)
        for task in ("worker-2", "worker-1", "worker-0"):  # the last one decides: then pods go
            self.end(training, task, 0)
        training.wait_for("Succeeded", 60)

    def test_code_that_is_the_programs_own_fault_fails_the_job_and_is_told(self):
        training = self.start(self.product.user_image)
        self.wait_start(training)
        self.end(training, "worker-2", 3)
        job = training.wait_for("Failed", 60)
        message = condition(job, "Failed")[2]
        self.assertIn("worker-2", message)
        self.assertIn("exit code 3", message)

    def test_image_in_which_the_runtime_cannot_start_is_named(self):
        message = condition(self.start(BASE).wait_for("Failed", 60), "Failed")[2]
        self.assertIn("exec /lockstep/bin/lockstep-runtime: no such file or directory", message)
        self.assertIn("glibc", message)

    def test_pods_have_what_the_cluster_keeps_what_is_fetched_first_and_a_sidecar(self):
        self.admin.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub"},
                           "stringData": {"token": "hidden"}}, self.namespace)
        token = {"secretKeyRef": {"name": "hub", "key": "token"}}
        field = {"fieldRef": {"fieldPath": "metadata.name"}}
        shared = {"image": self.product.user_image, "securityContext": {"runAsUser": 65532},
                  "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        job = training_job("sourced", 2, gpus=0, successPolicy="AllWorkers", pod_spec={
            "volumes": [{"name": "data", "emptyDir": {}}],
            "initContainers": [
                {**shared, "name": "fetch", "command": ["sh", "-c", FETCH],
                 "env": [{"name": "TOKEN", "valueFrom": token}]},
                {**shared, "name": "tell", "command": ["sh", "-c", TELL],
                 "restartPolicy": "Always"}],
            "container": {**shared, "command": ["sh", "-c", COMPARE],
                          "env": [{"name": "POD", "valueFrom": field}],
                          "envFrom": [{"prefix": "HUB_", "secretRef": {"name": "hub"}}]}})
        self.admin.create(job, self.namespace)
        training = Training(self.product, self.namespace, "sourced")
        training.wait_for("Succeeded", 60)
        for pod in training.pods().values():
            name = pod["metadata"]["name"]
            self.assertIn(f"{name} hidden for hidden",
                          self.plane.kubectl("logs", name, "-n", self.namespace))

    def test_the_example_with_an_image_that_runs_as_root(self):
        """In a namespace that asks for no level of security, as most do."""
        self.namespace = "root"
        self.product.make_namespace(self.namespace, labels={})
        job = self.plane.read(EXAMPLE)
        (container,) = job["spec"]["roles"][0]["template"]["spec"]["containers"]
        container["image"] = self.product.user_image
        container["args"][0] += 'echo "user $(id -u)"\n'
        self.admin.create(job, self.namespace)
        training = Training(self.product, self.namespace, "any-command")
        self.assertEqual(training.wait_for("Succeeded", 60)["status"].get("restartCount", 0), 0)
        for task, pod in training.pods().items():
            rank = task.rpartition("-")[2]
            log = self.plane.kubectl("logs", pod["metadata"]["name"], "-n", self.namespace)
            self.assertIn(f"I am rank {rank} of 2; hello from the manifest", log)
            self.assertIn("user 0", log)

    def start(self, image):
        program = {"image": image, "command": ["sh", "-c", PROGRAM],
                   "securityContext": {"runAsUser": 65532}}
        job = training_job("program", 3, gpus=0, pod_spec={"container": program})
        self.admin.create(job, self.namespace)
        return Training(self.product, self.namespace, "program")

    def was_told(self, training, task, pod):
        """Whether the program in the pod has said that it knows who it is."""
        index = int(task.rpartition("-")[2])
        mark = f"[rank {index}] of 3: "
        output = self.admin.log(pod["metadata"]["name"], self.namespace)
        told, end, _ = output.partition(mark)[2].partition("\n")
        if not end:
            return False
        config = json.loads(told)
        self.assertEqual(config["task"], {"type": "worker", "index": index})
        self.assertEqual(len(config["cluster"]["worker"]), 3)
        return True

    def wait_start(self, training):
        def all_told():
            pods = training.pods()
            return len(pods) == 3 and all(
                self.was_told(training, task, pod) for task, pod in pods.items())

        training.wait(all_told, 60, "the programs to start")

    def end(self, training, task, code):
        name = training.pods()[task]["metadata"]["name"]
        self.plane.kubectl("exec", name, "-n", self.namespace, "--",
                           "sh", "-c", f"echo {code} > /tmp/code.new; mv /tmp/code.new /tmp/code")


def _uids(pods):
    return {pod["metadata"]["uid"] for pod in pods.values()}


if __name__ == "__main__":
    unittest.main()
