"""The operator as a process of this machine, with the rights that the chart gives it."""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request

from processes import wait_for
from tools import BIN, REPOSITORY, require_tools, tool

NAMESPACE = "lockstep-system"
LEASE = "lockstep"  # the release: the chart gives rights to a lease and a secret of that name
# beast or cpprest: the same tests over the other library.
TRANSPORT = os.environ.get("LOCKSTEP_TEST_TRANSPORT", "beast")
CHART = REPOSITORY / "helm" / "lockstep"
RUNTIME_IMAGE = "localhost/lockstep-runtime:test"
_OPERATORS = ("operator", "operator-2")
_PORT_FIRST = 8080
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def require_operator():
    """Probe: the program under test must have been built; only its absence may skip."""
    require_tools("helm")
    if not (BIN / "lockstep-operator").exists():
        import unittest

        raise unittest.SkipTest("lockstep-operator is not built")


def grant_rights(plane, values=()):
    """Makes the namespace of the operator, and binds its test users to the chart's own roles, with
    these values ("kueue.enabled=true")."""
    if plane.admin.find("Namespace", NAMESPACE) is None:  # of another class
        plane.admin.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
    grant_rights_of(plane, LEASE, values)


def grant_rights_of(plane, release, values=()):
    """Binds the test users to the chart's roles for the release of that name."""
    rendered = subprocess.run(
        [tool("helm"), "template", release, CHART, "--namespace", NAMESPACE,
         *(word for value in values for word in ("--set", value))],
        check=True, capture_output=True, text=True,
    ).stdout
    documents = plane.kubectl(
        "create", "--dry-run=client", "-o", "json", "-n", NAMESPACE, "-f", "-", input=rendered
    )
    decoder, position = json.JSONDecoder(), 0
    while position < len(documents.rstrip()):
        document, position = decoder.raw_decode(documents, position)
        position += len(documents[position:]) - len(documents[position:].lstrip())
        if document["kind"] in ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"):
            for binding in document.get("subjects", []):
                binding.pop("namespace", None)
            if "subjects" in document:
                document["subjects"] = [
                    {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
                    for user in _OPERATORS
                ]
            plane.admin.create(document, NAMESPACE)


class Operator:
    """One running operator. Several are told apart by `number`, which also chooses the user.
    `environment` is added to ours; those of one `release` share a lease."""

    def __init__(self, plane, number=1, kubeconfig=None, flags=(), environment=(),
                 log_level="debug", release=LEASE):
        self._plane = plane
        self._address = f"{plane.local_address}:{_PORT_FIRST + number}"
        self.user = _OPERATORS[number - 1]
        self._arguments = [
            "env", *environment,
            BIN / "lockstep-operator",
            "--kubeconfig", kubeconfig or plane.kubeconfig(self.user),
            "--lease-namespace", NAMESPACE,
            "--lease-name", release,
            "--key-secret", f"{release}-key",
            "--transport", TRANSPORT,
            "--metrics-address", self._address,
            "--runtime-image", RUNTIME_IMAGE,
            "--log-level", log_level,
            *flags,
        ]
        self._name = f"lockstep-{self.user}"
        self.program = None

    def start(self, wait=True):
        self.program = self._plane.run(self._name, *self._arguments)
        if wait:
            self.program.wait_ready(self.is_ready, 30)
        return self

    def get(self, path):
        """What it answers, or None while it does not answer with success."""
        try:
            with _OPENER.open(f"http://{self._address}{path}", timeout=5) as response:
                return response.read().decode()
        except OSError:
            return None

    def trouble(self, check):
        """What that check of /readyz finds wrong; empty while it passes."""
        try:
            with _OPENER.open(f"http://{self._address}/readyz/{check}", timeout=5):
                return ""
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def is_ready(self):
        return self.get("/readyz") is not None

    def is_leading(self):
        return self.metric("leader_election_master_status") == 1

    def metric(self, name, **labels):
        """The sum of all samples of that name that have these labels."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        total = 0.0
        for line in (self.get("/metrics") or "").splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(each in series for each in wanted):
                total += float(value)
        return total

    def kill(self):
        self.program.kill()

    def stop(self, seconds=30):
        """A polite end; returns the exit code."""
        self.program.signal(signal.SIGTERM)
        return self.program.exit_code(seconds)

    def pause(self):
        self.program.signal(signal.SIGSTOP)
        wait_for(lambda: self._state() == "T", 5, "the operator to stand still")

    def resume(self):
        self.program.signal(signal.SIGCONT)

    def _state(self):
        with open(f"/proc/{self.program.pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
