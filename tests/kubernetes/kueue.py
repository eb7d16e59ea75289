"""A real Kueue, built from its Go module, on a control plane of these tests."""

import base64
import json
import shutil

import client
from go_program import build
from processes import wait_for

MODULE, VERSION = "sigs.k8s.io/kueue", "v0.17.0"
API = "kueue.x-k8s.io/v1beta2"
LABEL = "kueue.x-k8s.io/queue-name"
_WEBHOOK_PORT, _HEALTH_PORT = 9443, 9444
# Without certificates of its own making Kueue reads some at a path of /etc that no setting changes.
_METRICS_CERTIFICATES = "kueue/metrics/certs"
_WITH_OTHER_ETC = 'mount --bind "$1" /etc && shift && exec "$@"'

for _kind, _plural, _is_namespaced in (
        ("Workload", "workloads", True), ("LocalQueue", "localqueues", True),
        ("ClusterQueue", "clusterqueues", False), ("ResourceFlavor", "resourceflavors", False)):
    client.KINDS[_kind] = (f"/apis/{API}", _plural, _is_namespaced)

# Those of the module's own manifests that are about its own kinds: name, operations, resources.
_HOOKS = (
    ("Mutating", "clusterqueue", ["CREATE"], ["clusterqueues"]),
    ("Mutating", "resourceflavor", ["CREATE"], ["resourceflavors"]),
    ("Mutating", "workload", ["CREATE"], ["workloads"]),
    ("Validating", "clusterqueue", ["CREATE", "UPDATE"], ["clusterqueues"]),
    ("Validating", "cohort", ["CREATE", "UPDATE"], ["cohorts"]),
    ("Validating", "resourceflavor", ["CREATE", "UPDATE"], ["resourceflavors"]),
    ("Validating", "workload", ["CREATE", "UPDATE"], ["workloads", "workloads/status"]),
)


class Kueue:
    """A running Kueue with the webhooks of its own kinds. It looks after batch Jobs besides, as one
    integration has to be on; it is as it comes otherwise."""

    def __init__(self, plane):
        self._plane, self._admin = plane, plane.admin
        program, definitions = build(
            MODULE, VERSION, "./cmd/kueue", ["config/components/crd/bases"])
        plane.apply(definitions)
        plane.wait_for_kinds()
        self._write_certificates()
        self.program = plane.run(
            "kueue", "unshare", "--map-root-user", "--mount", "sh", "-c", _WITH_OTHER_ETC, "sh",
            self._etc, program, f"--kubeconfig={plane.kubeconfig('admin')}",
            f"--config={self._write_configuration()}")
        self._register_hooks()
        self._wait_ready()

    def _write_certificates(self):
        self._etc = self._plane.folder / "kueue-etc"
        self._certificates = self._etc / _METRICS_CERTIFICATES
        self._certificates.mkdir(parents=True)
        made = self._plane.credentials.make_certificate(
            "kueue", "/CN=kueue", addresses=[self._plane.local_address])
        for file, name in zip(made, ("tls.crt", "tls.key")):
            shutil.copy(file, self._certificates / name)

    def _write_configuration(self):
        address = self._plane.local_address
        file = self._plane.folder / "kueue.json"
        file.write_text(json.dumps({
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"{address}:{_HEALTH_PORT}"},
            "webhook": {"host": address, "port": _WEBHOOK_PORT,
                        "certDir": str(self._certificates)},
            "integrations": {"frameworks": ["batch/job"]},
            "featureGates": {"VisibilityOnDemand": False},
        }))
        return file

    def _register_hooks(self):
        authority = base64.b64encode(self._plane.credentials.ca_file.read_bytes()).decode()
        for kind, name, operations, resources in _HOOKS:
            verb = "mutate" if kind == "Mutating" else "validate"
            path = f"{verb}-kueue-x-k8s-io-v1beta2-{name}"
            self._admin.create({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": f"{kind}WebhookConfiguration",
                "metadata": {"name": f"kueue-{verb}-{name}"},
                "webhooks": [{
                    "name": f"{verb}.{name}.kb.io",
                    "clientConfig": {
                        "url": f"https://{self._plane.local_address}:{_WEBHOOK_PORT}/{path}",
                        "caBundle": authority,
                    },
                    "rules": [{"apiGroups": ["kueue.x-k8s.io"], "apiVersions": ["v1beta2"],
                               "operations": operations, "resources": resources}],
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                }],
            })

    def _wait_ready(self):
        flavor = {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "probe"}}

        def answers():
            code, _ = self._plane.kubectl(
                "create", "--dry-run=server", "-f", "-", input=json.dumps(flavor), check=False)
            return code == 0

        wait_for(answers, 60, "the webhooks of Kueue")
