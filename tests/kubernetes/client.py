"""A JSON client of the API server, small enough to be read and to be trusted by tests."""

import http.client
import json
import ssl
import threading
import time
import urllib.parse

REQUEST_SECONDS = 30
_STORAGE_COMES = b"storage is (re)initializing"  # 429 for a kind that is new or has changed
_WATCH_BYTES = 1 << 20  # at a time: one read for many small chunks

# Kind: (API prefix, name in the URL, whether it lives in a namespace).
KINDS = {
    "Namespace": ("/api/v1", "namespaces", False),
    "Node": ("/api/v1", "nodes", False),
    "Pod": ("/api/v1", "pods", True),
    "Secret": ("/api/v1", "secrets", True),
    "Service": ("/api/v1", "services", True),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True),
    "ConfigMap": ("/api/v1", "configmaps", True),
    "Event": ("/api/v1", "events", True),
    "ResourceQuota": ("/api/v1", "resourcequotas", True),
    "LimitRange": ("/api/v1", "limitranges", True),
    "Job": ("/apis/batch/v1", "jobs", True),
    "EndpointSlice": ("/apis/discovery.k8s.io/v1", "endpointslices", True),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases", True),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "CustomResourceDefinition": (
        "/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", False,
    ),
    "MutatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", False,
    ),
    "ValidatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", False,
    ),
    "TrainingJob": ("/apis/lockstep.dev/v1", "trainingjobs", True),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "TrainingQueue": ("/apis/lockstep.dev/v1", "trainingqueues", False),
}
PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class ApiError(Exception):
    """What the API server answered instead of what was asked for."""

    def __init__(self, code, status):
        self.code = code
        self.reason = status.get("reason", "")
        self.message = status.get("message", "")
        super().__init__(f"{code} {self.reason}: {self.message}")


def path_of(kind, namespace=None, name=None, subresource=None):
    prefix, plural, is_namespaced = KINDS[kind]
    parts = [prefix]
    if is_namespaced and namespace is not None:
        parts.append(f"namespaces/{namespace}")
    parts += [part for part in (plural, name, subresource) if part]
    return "/".join(parts)


class Client:
    """Speaks as the user of `token`. Thread: any; every thread has a connection of its own, and
    close() closes them all."""

    def __init__(self, host, port, ca_file, token):
        self._host, self._port, self._token = host, port, token
        self._tls = ssl.create_default_context(cafile=str(ca_file))
        self._local = threading.local()
        self._connections = []

    def close(self):
        for connection in self._connections:
            connection.close()

    def connect(self, seconds=REQUEST_SECONDS):
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=seconds, context=self._tls
        )

    def headers(self, content_type="application/json"):
        return {
            "Authorization": f"Bearer {self._token}",
            "Accept": "application/json",
            "Content-Type": content_type,
        }

    def request(self, method, path, body=None, content_type="application/json", query=None):
        """The decoded answer. A body that is text is sent as it is. Raises ApiError, or OSError
        where there is no server."""
        if query:
            path += "?" + urllib.parse.urlencode(query)
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        deadline = time.monotonic() + REQUEST_SECONDS
        code, answer = self._exchange(method, path, data, content_type)
        while code == 429 and _STORAGE_COMES in answer and time.monotonic() < deadline:
            time.sleep(0.2)
            code, answer = self._exchange(method, path, data, content_type)
        if code >= 400:
            try:
                raise ApiError(code, json.loads(answer))
            except ValueError:
                raise ApiError(code, {"message": answer.decode(errors="replace")}) from None
        return json.loads(answer) if answer[:1] in (b"{", b"[") else answer.decode()

    def _exchange(self, method, path, data, content_type):
        # A connection that was idle may have been closed by the server: only then, once more.
        while True:
            connection = getattr(self._local, "connection", None)
            is_fresh = connection is None
            if is_fresh:
                connection = self._local.connection = self.connect()
                self._connections.append(connection)
            try:
                connection.request(method, path, data, self.headers(content_type))
                response = connection.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._connections.remove(connection)
                self._local.connection = None
                if is_fresh or isinstance(error, TimeoutError):
                    raise OSError(f"{method} {path}: {error!r}") from error

    def is_ready(self):
        try:
            return self.request("GET", "/readyz") == "ok"
        except (ApiError, OSError):
            return False

    def log(self, pod, namespace="default"):
        """What the container of a pod has written so far; empty while nobody can say."""
        code, answer = self._exchange(
            "GET", path_of("Pod", namespace, pod, "log"), None, "application/json")
        return answer.decode(errors="replace") if code == 200 else ""

    def create(self, body, namespace="default"):
        namespace = body["metadata"].get("namespace", namespace)
        return self.request("POST", path_of(body["kind"], namespace), body)

    def get(self, kind, name, namespace="default"):
        return self.request("GET", path_of(kind, namespace, name))

    def find(self, kind, name, namespace="default"):
        """The object, or None where there is none."""
        try:
            return self.get(kind, name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    def list(self, kind, namespace="default", labels=None, fields=None):
        """All objects of one namespace, or of all with namespace=None."""
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        query = {key: value for key, value in selectors.items() if value}
        return self.request("GET", path_of(kind, namespace), query=query)["items"]

    def patch(self, kind, name, body, namespace="default", subresource=None, how="merge"):
        query = {"fieldManager": "test", "force": "true"} if how == "apply" else None
        path = path_of(kind, namespace, name, subresource)
        return self.request("PATCH", path, body, PATCH_TYPES[how], query)

    def replace(self, body, subresource=None):
        metadata = body["metadata"]
        path = path_of(body["kind"], metadata.get("namespace"), metadata["name"], subresource)
        return self.request("PUT", path, body)

    def delete(self, kind, name, namespace="default", **options):
        """`options` as in DeleteOptions, e.g. gracePeriodSeconds or propagationPolicy."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        return self.request("DELETE", path_of(kind, namespace, name), body)

    def delete_all(self, kind, namespace="default", labels=None, **options):
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        query = {"labelSelector": labels} if labels else None
        return self.request("DELETE", path_of(kind, namespace), body, query=query)


class Watch:
    """Collects the watch events of one kind in a thread, each with its time of arrival. Goes on
    where it was when the server ends it, as it does with a reader that is slow.

    `events` is a list of (time.monotonic(), type, object), appended to while the watch lasts."""

    def __init__(self, client, kind, namespace="default", labels=None):
        self.events = []
        self._client = client
        self._path = path_of(kind, namespace)
        first = client.request("GET", self._path, query={"limit": 1})
        self._query = {"watch": "true", "resourceVersion": first["metadata"]["resourceVersion"]}
        if labels:
            self._query["labelSelector"] = labels
        self._is_closed = False
        self._open()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _open(self):
        self._connection = self._client.connect(seconds=None)
        self._connection.request(
            "GET", f"{self._path}?{urllib.parse.urlencode(self._query)}",
            headers=self._client.headers(),
        )
        self._socket = self._connection.sock
        self._response = self._connection.getresponse()

    def _read(self):
        while not self._is_closed:
            try:
                self._follow()
                self._connection.close()
                if not self._is_closed:
                    self._open()
            except (OSError, ValueError, http.client.HTTPException):
                return  # closed, or there is no server any more

    def _follow(self):
        rest = b""
        while data := self._response.read1(_WATCH_BYTES):
            arrival = time.monotonic()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                event = json.loads(line)
                self.events.append((arrival, event["type"], event["object"]))
                self._query["resourceVersion"] = event["object"]["metadata"]["resourceVersion"]

    def close(self):
        self._is_closed = True
        try:
            self._socket.shutdown(2)
        except OSError:
            pass  # the server was faster
        self._thread.join()
        self._connection.close()
