"""JobSet beside us: its controller, built from its Go module, on the same control plane."""

import base64
import json
import os
import pathlib
import shutil
import subprocess

import client
from hollow_nodes import GPU
from processes import wait_for
from tools import tools_folder

MODULE, VERSION = "sigs.k8s.io/jobset", "v0.12.0"
LABEL = "jobset.sigs.k8s.io/jobset-name"
_API, _KIND, _PLURAL = "jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets"
_WEBHOOK_PORT = 9443

client.KINDS[_KIND] = (f"/apis/{_API}", _PLURAL, True)
client.KINDS["MutatingWebhookConfiguration"] = (
    "/apis/admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", False)

# What the module's own manifests ask for: it can do nothing without the first two, and the last
# two are called for its pods only.
_HOOKS = (
    ("Mutating", "mjobset", "mutate-jobset-x-k8s-io-v1alpha2-jobset", ["CREATE"]),
    ("Validating", "vjobset", "validate-jobset-x-k8s-io-v1alpha2-jobset", ["CREATE", "UPDATE"]),
    ("Mutating", "mpod", "mutate--v1-pod", ["CREATE"]),
    ("Validating", "vpod", "validate--v1-pod", ["CREATE"]),
)


def build():
    """The controller's program and its definition; built the first time, in about a minute."""
    folder = tools_folder().parents[1] / f"jobset-{VERSION}"
    program, definition = folder / "jobset-controller", folder / "jobsets.yaml"
    if program.exists():
        return program, definition
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local",
                   "GOFLAGS": "-buildvcs=false"}
    found = subprocess.run(["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"], check=True,
                           capture_output=True, text=True, env=environment, cwd="/")
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(json.loads(found.stdout)["Dir"], source)
    subprocess.run(["chmod", "-R", "u+w", source], check=True)
    shutil.copy(source / "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml", definition)
    subprocess.run(["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", f"{program}.new", "."],
                   check=True, env=environment, cwd=source)
    shutil.rmtree(source)
    pathlib.Path(f"{program}.new").rename(program)
    return program, definition


class JobSet:
    """A running JobSet controller with its webhooks, which it does not work without. Its client's
    limits are those it ships with, 500 requests a second; the Job controller, which makes its pods,
    has the limits that `plane` was given."""

    label = LABEL

    def __init__(self, plane, namespace, gpus_per_worker):
        self._plane, self._admin = plane, plane.admin
        self._namespace, self._gpus = namespace, gpus_per_worker
        program, definition = build()
        plane.apply(definition)
        plane.wait_for_kinds()
        self._write_certificate()
        self._program = plane.run(
            "jobset", program, f"--kubeconfig={plane.kubeconfig('admin')}",
            f"--config={self._write_configuration()}")
        self._register_hooks()
        self._wait_ready()

    def cpu_seconds(self):
        """Of the controller and of the Job controller beside it."""
        manager = self._plane.program("kube-controller-manager")
        return self._program.cpu_seconds() + manager.cpu_seconds()

    def create(self, name, workers):
        self._admin.create(self._manifest(name, workers), self._namespace)

    def delete(self, name):
        self._admin.delete(_KIND, name, self._namespace, propagationPolicy="Background")

    def _manifest(self, name, workers):
        container = {"name": "trainer", "image": "localhost/program:1", "command": ["train"],
                     "resources": {"limits": {GPU: str(self._gpus)}}}
        pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
               "containers": [container]}
        job = {"parallelism": workers, "completions": workers, "completionMode": "Indexed",
               "backoffLimit": 0, "template": {"spec": pod}}
        return {"apiVersion": _API, "kind": _KIND, "metadata": {"name": name},
                "spec": {"replicatedJobs": [
                    {"name": "worker", "replicas": 1, "template": {"spec": job}}]}}

    def _write_certificate(self):
        self._certificates = self._plane.folder / "jobset-certificates"
        self._certificates.mkdir()
        made = self._plane.credentials.make_certificate(
            "jobset", "/CN=jobset", addresses=[self._plane.local_address])
        for file, name in zip(made, ("tls.crt", "tls.key")):
            shutil.copy(file, self._certificates / name)

    def _write_configuration(self):
        file = self._plane.folder / "jobset.json"
        file.write_text(json.dumps({
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": "0"},
            "webhook": {"host": self._plane.local_address, "port": _WEBHOOK_PORT,
                        "certDir": str(self._certificates)},
        }))
        return file

    def _register_hooks(self):
        authority = base64.b64encode(self._plane.credentials.ca_file.read_bytes()).decode()
        for kind, name, path, operations in _HOOKS:
            is_of_pods = name.endswith("pod")
            group, version, resource = ("", "v1", "pods") if is_of_pods else (
                *_API.split("/"), _PLURAL)
            hook = {
                "name": f"{name}.kb.io",
                "clientConfig": {
                    "url": f"https://{self._plane.local_address}:{_WEBHOOK_PORT}/{path}",
                    "caBundle": authority,
                },
                "rules": [{"apiGroups": [group], "apiVersions": [version],
                           "operations": operations, "resources": [resource]}],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
            if is_of_pods:
                hook["objectSelector"] = {
                    "matchExpressions": [{"key": LABEL, "operator": "Exists"}]}
            self._admin.create({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": f"{kind}WebhookConfiguration",
                "metadata": {"name": name},
                "webhooks": [hook],
            })

    def _wait_ready(self):
        def answers():
            code, _ = self._plane.kubectl(
                "create", "--dry-run=server", "-n", self._namespace, "-f", "-",
                input=json.dumps(self._manifest("probe", 1)), check=False)
            return code == 0

        wait_for(answers, 60, "the webhooks of JobSet")
