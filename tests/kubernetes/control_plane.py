"""A real Kubernetes control plane on loopback: etcd, API server, controllers and scheduler.

    with ControlPlane() as plane:
        plane.kubectl("apply", "-f", "examples/mnist.yaml")
        plane.admin.get("TrainingJob", "mnist")

Needs no root. Ready in about 3 s on two cores; several can run side by side."""

import atexit
import base64
import json
import pathlib
import shutil
import ssl
import subprocess
import tempfile
import urllib.request

from client import ApiError, Client
from credentials import Credentials
from processes import LoopbackAddress, Program, wait_for
from tools import REPOSITORY, tool

CONTROL_PLANE_TOOLS = (
    "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl",
)
ETCD_PORT = 2379
CONTROLLER_MANAGER_PORT = 10257
SCHEDULER_PORT = 10259
SERVICE_RANGE = "10.79.0.0/16"
KUBECTL_TRIES = 3  # its own limit for the API server's schema is short for a busy machine
# What one class of tests could find of another, owners first. Services and quotas count in the
# namespace of their test alone.
RESET_KINDS = (
    "TrainingJob", "TrainingQueue", "Node", "Pod", "Lease", "Secret", "PriorityClass", "Role",
    "RoleBinding", "ClusterRole", "ClusterRoleBinding", "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration", "CustomResourceDefinition",
)

_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "Metadata"},
    ],
}


class ControlPlane:
    """Options:
    crds         files and folders to apply before the controllers start: the garbage collector
                 takes up to 40 s to notice a kind that it did not find when it started
    address      (address, port) that the API server listens on; default: a loopback address
    nodes        names of real nodes, which get credentials of their own
    node_grace   seconds after which a silent node counts as lost; None: Kubernetes' default, 50
    audit        whether writes are recorded, see audit_events()
    controllers  whether there are controllers and a scheduler, or only the API
    gates        feature gates that are on in every program, beside Kubernetes' defaults
    apis         versions of APIs that are served although Kubernetes would not by itself"""

    def __init__(
        self, crds=None, address=None, nodes=(), node_grace=None, audit=False, controllers=True,
        gates=(), apis=(),
    ):
        if crds is None:
            crds = [REPOSITORY / "crds"] if list(REPOSITORY.glob("crds/*.yaml")) else []
        self._crds = list(crds)
        self.node_grace = node_grace
        self._audit = audit
        self._has_controllers = controllers
        self._gates = (
            {"feature-gates": ",".join(f"{gate}=true" for gate in gates)} if gates else {})
        self._apis = tuple(apis)
        self._nodes = tuple(nodes)
        self._programs = {}
        self._clients = []
        self._loopback = LoopbackAddress()
        self.local_address = self._loopback.address
        self.host, self.port = address or (self.local_address, 6443)
        self.server = f"https://{self.host}:{self.port}"
        self.folder = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="control-plane-"))
        atexit.register(self.stop)
        try:
            addresses = dict.fromkeys([self.host, self.local_address, "10.79.0.1"])
            self.credentials = Credentials(self.folder / "credentials", addresses, self._nodes)
            self.admin = self.client("admin")
            self.start_etcd()
            self.start_api_server()
            self._install_crds()
            if self._has_controllers:
                self._start_controllers()
        except BaseException:
            self.stop()
            raise

    def stop(self):
        """Ends every process and removes every file. More than once is no mistake."""
        for client in self._clients:
            client.close()
        for name in reversed(list(self._programs)):
            self._programs.pop(name).kill()
        self._loopback.release()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.stop)

    @property
    def is_up(self):
        return bool(self._programs)

    def run(self, name, *arguments):
        """Starts a program that ends with the control plane; returns it."""
        program = Program(name, arguments, self.folder / f"{name}.log")
        self._programs[name] = program
        return program

    def program(self, name):
        return self._programs[name]

    def start_etcd(self):
        url = f"http://{self.local_address}:{ETCD_PORT}"
        peer = f"http://{self.local_address}:0"  # there is one member
        etcd = self.run(
            "etcd", tool("etcd"), "--data-dir", self.folder / "etcd", "--unsafe-no-fsync",
            "--log-level", "warn",
            "--listen-client-urls", url, "--advertise-client-urls", url,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"default={peer}",
        )
        etcd.wait_ready(lambda: _answers(f"{url}/health"))

    def start_api_server(self):
        """Starts it, also again after it was killed."""
        folder = self.credentials.folder
        flags = {
            "etcd-servers": f"http://{self.local_address}:{ETCD_PORT}",
            "bind-address": self.host,
            "secure-port": self.port,
            "advertise-address": self.host,
            "endpoint-reconciler-type": "none",
            "tls-cert-file": folder / "api.crt",
            "tls-private-key-file": folder / "api.key",
            "client-ca-file": self.credentials.ca_file,
            "kubelet-client-certificate": folder / "kubelet-client.crt",
            "kubelet-client-key": folder / "kubelet-client.key",
            "kubelet-preferred-address-types": "InternalIP",
            "token-auth-file": self.credentials.token_file,
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": folder / "accounts.key",
            "service-account-signing-key-file": folder / "accounts.key",
            "service-cluster-ip-range": SERVICE_RANGE,
            "allow-privileged": "true",
            "profiling": "false",
            **self._gates,
        }
        if self._apis:
            flags["runtime-config"] = ",".join(f"{api}=true" for api in self._apis)
        if self._audit:
            policy = self.folder / "audit-policy.json"
            policy.write_text(json.dumps(_AUDIT_POLICY))
            flags["audit-policy-file"] = policy
            flags["audit-log-path"] = self.folder / "audit.jsonl"
        server = self._run_with_flags("kube-apiserver", flags)
        server.wait_ready(self.admin.is_ready)

    def _start_controllers(self):
        common = {
            "leader-elect": "false",
            "bind-address": self.local_address,
            "authentication-skip-lookup": "true",
            "authorization-always-allow-paths": "/healthz,/metrics",
            **self._gates,
        }
        manager = {
            "kubeconfig": self.kubeconfig("system:kube-controller-manager"),
            "service-account-private-key-file": self.credentials.folder / "accounts.key",
            "root-ca-file": self.credentials.ca_file,
            "use-service-account-credentials": "true",
            # Without this a run by root makes /usr/libexec/kubernetes.
            "flex-volume-plugin-dir": self.folder / "flex",
            "kube-api-qps": 500,
            "kube-api-burst": 1000,
        }
        if self.node_grace is not None:
            manager["node-monitor-grace-period"] = f"{self.node_grace}s"
            manager["node-monitor-period"] = "2s"
        scheduler = {
            "kubeconfig": self.kubeconfig("system:kube-scheduler"),
            "kube-api-qps": 500,
            "kube-api-burst": 1000,
        }
        started = [
            (self._run_with_flags("kube-controller-manager", {**common, **manager}),
             CONTROLLER_MANAGER_PORT),
            (self._run_with_flags("kube-scheduler", {**common, **scheduler}), SCHEDULER_PORT),
        ]
        for program, port in started:
            url = f"https://{self.local_address}:{port}/healthz"
            program.wait_ready(lambda url=url: _answers(url))
        # Pods are refused before their service account is there.
        started[0][0].wait_ready(lambda: self.admin.find("ServiceAccount", "default"))

    def _run_with_flags(self, name, flags):
        return self.run(name, tool(name), *(f"--{key}={value}" for key, value in flags.items()))

    def client(self, user, address=None):
        """A client that speaks as that user; `address` for one that stands in between."""
        client = Client(
            *(address or (self.host, self.port)),
            self.credentials.ca_file,
            self.credentials.tokens[user],
        )
        self._clients.append(client)
        return client

    def kubeconfig(self, user="admin", server=None):
        """A kubeconfig file of that user; `server` for one that stands in between."""
        return self.credentials.kubeconfig(user, server or self.server)

    def kubectl(self, *arguments, user="admin", input=None, check=True):
        """Runs kubectl; returns what it printed, or with check=False (exit code, stdout+stderr)."""
        command = [tool("kubectl"), f"--kubeconfig={self.kubeconfig(user)}",
                   f"--cache-dir={self.folder / 'kubectl-cache'}", *map(str, arguments)]
        for _ in range(KUBECTL_TRIES):
            run = subprocess.run(command, input=input, capture_output=True, text=True, timeout=120)
            if "Client.Timeout" not in run.stderr:
                break
        if not check:
            return run.returncode, run.stdout + run.stderr
        if run.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(map(str, arguments))}: {run.stderr}")
        return run.stdout

    def read(self, manifest):
        """The one object of a YAML file."""
        document = json.loads(
            self.kubectl("create", "-f", manifest, "--dry-run=client", "-o", "json"))
        del document["metadata"]["namespace"]  # kubectl's own
        return document

    def apply(self, *manifests):
        """Applies files, and folders of files."""
        for manifest in manifests:
            self.kubectl("apply", "--server-side", "-f", manifest)

    def _install_crds(self):
        self.apply(*self._crds)
        self.wait_for_kinds()

    def wait_for_kinds(self):
        """Waits until every custom kind that was applied is accepted."""

        def established():
            return all(
                any(each["type"] == "Established" and each["status"] == "True"
                    for each in crd["status"].get("conditions") or [])
                for crd in self.admin.list("CustomResourceDefinition")
            )

        wait_for(established, 30, "the custom kinds to be established")

    def restart_api_server(self):
        """After this every watch that was open sees its resource version refused as too old, for
        the new server remembers no events of the old one."""
        self.kill_api_server()
        self.start_api_server()

    def set_apis(self, apis):
        """The option of that name, from the API server's next start on."""
        self._apis = tuple(apis)

    def state(self):
        """What reset() goes back to: the programs that run, and the objects that are there."""
        return set(self._programs), {kind: self._objects(kind) for kind in RESET_KINDS}

    def reset(self, state):
        """Ends every program and deletes every object of RESET_KINDS that has come since."""
        programs, objects = state
        for name in reversed(list(self._programs)):
            if name not in programs:
                self._programs.pop(name).kill()

        def is_done():
            left = [(kind, *each) for kind in RESET_KINDS
                    for each in sorted(self._objects(kind) - objects[kind])]
            for kind, namespace, name in left:
                self._delete(kind, name, namespace)
            return not left

        wait_for(is_done, 60, "what another class has left to go")

    def _objects(self, kind):
        """(namespace or "", name) of each; none of a kind that nobody serves."""
        try:
            listed = self.admin.list(kind, None)
        except ApiError as error:
            if error.code != 404:
                raise
            return set()
        metadata = [each["metadata"] for each in listed]
        return {(each.get("namespace", ""), each["name"]) for each in metadata}

    def _delete(self, kind, name, namespace):
        try:
            self.admin.delete(kind, name, namespace, gracePeriodSeconds=0)
        except ApiError as error:
            if error.code != 404:  # it has gone with its owner
                raise

    def kill_api_server(self):
        self._programs.pop("kube-apiserver").kill()

    def compact_history(self):
        """Makes etcd forget all but the newest state."""
        url = f"http://{self.local_address}:{ETCD_PORT}/v3/kv"
        key = base64.b64encode(b"/").decode()
        revision = _post(f"{url}/range", {"key": key})["header"]["revision"]
        _post(f"{url}/compaction", {"revision": revision, "physical": True})

    def audit_events(self):
        """Every finished write: documents of kind audit.k8s.io/v1 Event."""
        lines = (self.folder / "audit.jsonl").read_text().split("\n")
        return [json.loads(line) for line in lines[:-1]]  # the last one may not be complete

    def wait_for(self, condition, seconds, what):
        return wait_for(condition, seconds, what)


def _answers(url):
    """Whether a server of ours answers with success; its certificate is not the point."""
    try:
        with _OPENER.open(url, timeout=5):
            return True
    except OSError:
        return False


def _post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode())
    with _OPENER.open(request, timeout=30) as response:
        return json.loads(response.read())


def _make_opener():
    """Neither proxies from the environment nor certificates matter between us and ourselves."""
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=unverified)
    )


_OPENER = _make_opener()
