"""`lockstep convert`: manifests of other operators, made into jobs that run."""

import json
import pathlib
import subprocess
import unittest

from harness import BIN, LocalTest

# A PyTorchJob as others write it: torchrun, two processes in a pod.
PYTORCH = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: torch}
spec:
  nprocPerNode: "2"
  runPolicy: {backoffLimit: 0}
  pytorchReplicaSpecs:
    Master: &pod
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
          - name: pytorch
            image: trainer
            command: [TORCHRUN, train.py]
    Worker: *pod
"""
# What torchrun reads of the job, in place of torchrun.
TORCHRUN = """#!/bin/sh
echo "node $PET_NODE_RANK of $PET_NNODES, $PET_NPROC_PER_NODE processes of $*"
"""
TF_WITHOUT_COMMAND = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: tf}
spec:
  tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: tensorflow, image: i}]}}}}
"""
# Each is twice the one before: the last would have a GiB.
DOUBLED = [{"name": f"V{i}", "value": f"$(V{i - 1})$(V{i - 1})" if i else "x"} for i in range(31)]
CHIEFS = TF_WITHOUT_COMMAND.replace("{Worker: {", "{Chief: {replicas: 2, ")
MANIFESTS = pathlib.Path(__file__).with_name("manifests")
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"


def convert(text, *options):
    done = subprocess.run([BIN / "lockstep", "convert", *options, "-"], input=text, text=True,
                          capture_output=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def tf_job(name):
    pod = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name},
            "spec": {"tfReplicaSpecs": {"Worker": {"template": pod}}}}


class Convert(LocalTest):
    def test_what_is_converted_runs(self):
        torchrun = self.scratch / "torchrun"
        torchrun.write_text(TORCHRUN)
        torchrun.chmod(0o755)
        exit_code, job, notes = convert(PYTORCH.replace("TORCHRUN", str(torchrun)))
        self.assertEqual((exit_code, notes), (0, ""))
        run = self.run_job(job)
        self.assertEqual(run.exit_code, 0, run.output)
        for pod, node in (("torch-chief-0", 0), ("torch-worker-0", 1)):
            log = run.pod_log(pod)
            self.assertEqual(log.count(f"node {node} of 2, 2 processes of train.py"), 1, log)

    def test_torchrun_that_stays_in_its_pod_is_told_of_as_by_validate(self):
        exit_code, job, told = convert(PYTORCH.replace("TORCHRUN", "torchrun, --standalone"))
        self.assertEqual(exit_code, 0, told)
        self.assertIn("command: torchrun with --standalone does not join the 2 pods of the job",
                      told)

    def test_variables_that_double_each_other_are_told_of_by_whoever_replaces_them(self):
        command = ["torchrun", "--nproc_per_node=$(V30)", "t.py"]
        pods = {"replicas": 2, "template": {"spec": {"containers": [
            {"name": "pytorch", "image": "i", "command": command, "env": DOUBLED}]}}}
        code, job, notes = convert(json.dumps(
            {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "deep"},
             "spec": {"pytorchReplicaSpecs": {"Worker": pods}}}))
        self.assertEqual(code, 0, notes)
        self.assertIn(json.dumps(DOUBLED[30]["value"])[1:-1], job)
        told = "longer than 65536 bytes, the limit, after each $(NAME) is replaced"
        rendered = subprocess.run([BIN / "lockstep", "render", "--local", "-"], input=job,
                                  text=True, capture_output=True, timeout=60)
        self.assertEqual(rendered.returncode, 1, rendered.stderr)
        self.assertIn(told, rendered.stderr)
        run = self.run_job(job)
        self.assertEqual(run.exit_code, 1, run.output)
        self.assertIn(told, run.summary["reason"])

    def test_objects_of_a_list_are_converted_one_by_one(self):
        items = {"apiVersion": "v1", "kind": "List", "items": [tf_job(name) for name in "ab"]}
        exit_code, jobs, notes = convert(json.dumps(items), "--command", "x")
        self.assertEqual(exit_code, 0, notes)
        self.assertEqual(jobs.count("kind: TrainingJob"), 2)
        self.assertIn("standard input:1: items[1].spec.runPolicy.backoffLimit:", notes)

    def test_job_in_a_list_of_a_list_is_converted_and_one_by_alias_named(self):
        inner = {"kind": "List", "items": [tf_job("b")]}
        items = {"apiVersion": "v1", "kind": "List", "items": [tf_job("a"), inner]}
        exit_code, jobs, told = convert(json.dumps(items), "--command", "x")
        self.assertEqual(exit_code, 0, told)
        self.assertEqual(jobs.count("kind: TrainingJob"), 2)
        self.assertIn("items[1].items[0].spec.runPolicy.backoffLimit:", told)
        again = f"kind: List\nitems:\n- &a {json.dumps(tf_job('a'))}\n- *a\n"
        exit_code, jobs, told = convert(again, "--command", "x")
        self.assertEqual(exit_code, 1, told)
        self.assertEqual(jobs.count("kind: TrainingJob"), 2)
        self.assertIn('standard input:4: items[1].metadata.name: "a" found twice', told)

    def test_what_stands_in_the_way_is_told_by_line_and_nothing_is_printed(self):
        exit_code, job, told = convert(TF_WITHOUT_COMMAND)
        self.assertEqual((exit_code, job), (2, ""))
        self.assertIn("standard input:6: spec.tfReplicaSpecs.Worker.template.spec.containers[0]"
                      ".command: missing, and lockstep does not know the image's own command", told)
        exit_code, job, told = convert(SETTINGS)
        self.assertEqual((exit_code, job), (2, ""))
        self.assertIn("not converted: a document of kind ConfigMap is left as it is", told)
        self.assertIn("nothing to convert, expected a TFJob, PyTorchJob, MPIJob", told)

    def test_job_that_would_be_refused_is_printed_with_the_reason(self):
        exit_code, job, told = convert(CHIEFS, "--command", "python3 t.py")
        self.assertEqual(exit_code, 1, told)
        self.assertIn("replicas: 2", job)
        self.assertRegex(told,
                         r"standard input:6: spec\.tfReplicaSpecs\.Chief\.replicas: 2 found, .*"
                         r" \(spec\.roles\[0\]\.replicas of the converted TrainingJob\)")

    def test_second_job_of_a_name_is_told_of(self):
        again = {"apiVersion": "v1", "kind": "List", "items": [tf_job("a"), tf_job("a")]}
        exit_code, jobs, told = convert(json.dumps(again), "--command", "x")
        self.assertEqual(exit_code, 1, told)
        self.assertEqual(jobs.count("kind: TrainingJob"), 2)
        self.assertIn('items[1].metadata.name: "a" found twice', told)
        again["items"][1]["metadata"]["namespace"] = "other"
        exit_code, jobs, told = convert(json.dumps(again), "--command", "x")
        self.assertEqual(exit_code, 0, told)

    def test_job_of_another_kind_of_theirs_is_no_success(self):
        jax = "apiVersion: kubeflow.org/v1\nkind: JAXJob\nmetadata: {name: j}\n"
        exit_code, job, told = convert(jax + "---" + TF_WITHOUT_COMMAND, "--command", "x")
        self.assertEqual(exit_code, 2, told)
        self.assertIn("kind: TrainingJob", job)
        self.assertIn("not converted: a document of kind JAXJob is left as it is", told)

    def test_documents_of_others_are_left_alone(self):
        exit_code, job, told = convert(SETTINGS + "---" + TF_WITHOUT_COMMAND, "--command", "x")
        self.assertEqual(exit_code, 0, told)
        self.assertNotIn("ConfigMap", job)
        self.assertIn("standard input:1: not converted: a document of kind ConfigMap is left as it "
                      'is, "c"\n', told)

    def test_template_is_called_one(self):
        for image in ("{{ .Values.image }}", "{{ .Values.image }}:1"):
            template = TF_WITHOUT_COMMAND.replace("image: i", f"image: {image}")
            exit_code, job, told = convert(template, "--command", "x")
            self.assertEqual((exit_code, job), (2, ""))
            self.assertEqual(told, "standard input:6: found a template with {{ ... }}, expected a "
                                   "rendered file: run helm template first\n")

    def test_runtime_of_the_same_file_is_part_of_the_train_job(self):
        pod = {"containers": [{"name": "node", "image": "base", "command": ["x"]}]}
        node = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
        runtime = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime",
                   "metadata": {"name": "r"},
                   "spec": {"template": {"spec": {"replicatedJobs": [node]}}}}
        job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
               "metadata": {"name": "t"},
               "spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": "r"}}}
        exit_code, made, told = convert(f"{json.dumps(runtime)}\n---\n{json.dumps(job)}\n")
        self.assertEqual(exit_code, 0, told)
        self.assertIn("image: base", made)
        self.assertIn("a TrainingRuntime is used only for the TrainJobs that name it", told)

    def test_empty_item_is_called_empty(self):
        items = {"apiVersion": "v1", "kind": "List", "items": [None, tf_job("a")]}
        exit_code, _, told = convert(json.dumps(items), "--command", "x")
        self.assertEqual(exit_code, 0, told)
        self.assertIn("items[0]: not converted: empty, expected apiVersion and kind\n", told)

    def test_queue_of_others_is_named_and_what_takes_its_place(self):
        queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\n"
        exit_code, job, told = convert(queue + "---" + TF_WITHOUT_COMMAND, "--command", "x")
        self.assertEqual(exit_code, 0, told)
        self.assertIn("a document of kind Queue is left as it is, \"q\"; "
                      "a TrainingJob waits in a TrainingQueue instead: create one\n", told)


class PublishedManifests(unittest.TestCase):
    """Manifests as people publish them: what is made of them, and all that is said about it."""

    def check(self, name, parts, told_fields):
        exit_code, job, told = convert((MANIFESTS / name).read_text())
        self.assertEqual(exit_code, 0, told)
        for part in parts:
            self.assertIn(part, job)
        self.assertEqual([line.split(": ")[1] for line in told.splitlines()], told_fields, told)

    def test_script_with_torchrun_stays_and_its_variables_count_pods(self):
        pods = "spec.pytorchReplicaSpecs.{}.template.spec.schedulerName"
        self.check("pytorchjob.yaml",
                   ["torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK", "processes: 1\n",
                    "backoffLimit: 2\n"],
                   ["metadata.labels", pods.format("Master"), pods.format("Worker"),
                    "spec.runPolicy.suspend"])

    def test_horovodrun_gives_way_to_its_program(self):
        launcher = "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0]"
        self.check("mpijob.yaml",
                   ["strategy: Horovod", "replicas: 4", "processes: 2", "- s3://images",
                    '- "90"'],
                   [f"{launcher}.args[7]", f"{launcher}.command", launcher])

    def test_parameter_servers_keep_their_roles(self):
        self.check("tfjob.yaml",
                   ["strategy: ParameterServer", "name: chief", "name: ps", "name: evaluator"],
                   ["spec.tfReplicaSpecs.Chief.restartPolicy"])

    def test_train_job_has_what_its_runtime_says(self):
        self.check("trainjob.yaml",
                   ["replicas: 4", "image: registry.example/torch:2", "claimName: cache",
                    "- torchrun", "nvidia.com/gpu: 4"],
                   ["not converted"])


if __name__ == "__main__":
    unittest.main()
