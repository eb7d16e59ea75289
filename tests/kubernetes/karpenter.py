"""A real Karpenter, built from its Go module, on a control plane of these tests. Its provider is
kwok's: the nodes that it makes are hollow ones, with one GPU each."""

import json

import client
from go_program import build
from hollow_nodes import GPU
from processes import wait_for

MODULE, VERSION = "sigs.k8s.io/karpenter", "v1.13.0"
_DEFINITIONS = ["pkg/apis/crds", "kwok/apis/crds"]
_READY_SECONDS = 60

client.KINDS["NodePool"] = ("/apis/karpenter.sh/v1", "nodepools", False)
client.KINDS["NodeClaim"] = ("/apis/karpenter.sh/v1", "nodeclaims", False)
client.KINDS["KWOKNodeClass"] = ("/apis/karpenter.kwok.sh/v1alpha1", "kwoknodeclasses", False)

_POOL = {
    "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
    "spec": {
        "template": {
            "metadata": {"labels": {"type": "hollow"}},  # kwok looks after these
            "spec": {
                "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In",
                                  "values": ["on-demand"]}],
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass",
                                 "name": "default"},
            },
        },
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
    },
}


def _requires(key, value):
    return {"key": key, "operator": "In", "values": [value]}


_INSTANCE_TYPES = [{
    "name": "one-gpu",
    "offerings": [{"Price": 1.0, "Available": True, "Requirements": [
        _requires("karpenter.sh/capacity-type", "on-demand"),
        _requires("topology.kubernetes.io/zone", "zone-a")]}],
    "architecture": "amd64",
    "operatingSystems": ["linux"],
    "resources": {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110",
                  GPU: "1"},
}]


def _listen_on_loopback(source):
    """It has settings for its ports, none for their addresses."""
    file = source / "pkg/operator/operator.go"
    text = file.read_text()
    changed = text.replace('fmt.Sprintf(":%d"', 'fmt.Sprintf("127.0.0.1:%d"')
    assert text.count('fmt.Sprintf(":%d"') == 2, "ports are opened in another way"
    file.write_text(changed)


class Karpenter:
    """It runs, and its pool is ready, until the control plane ends."""

    def __init__(self, plane):
        program, definitions = build(
            MODULE, VERSION, "./kwok", _DEFINITIONS, _listen_on_loopback)
        plane.apply(definitions)
        plane.wait_for_kinds()
        types = plane.folder / "instance-types.json"
        types.write_text(json.dumps(_INSTANCE_TYPES))
        self.program = plane.run(
            "karpenter", "env", f"KUBECONFIG={plane.kubeconfig('admin')}", program,
            "--disable-leader-election=true", "--metrics-port=0", "--health-probe-port=0",
            f"--instance-types-file-path={types}")
        admin = plane.admin
        admin.create({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
                      "metadata": {"name": "default"}})
        admin.create(_POOL)

        def is_ready():
            conditions = admin.get("NodePool", "default").get("status", {}).get("conditions", [])
            return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

        wait_for(is_ready, _READY_SECONDS, "the node pool of Karpenter")
