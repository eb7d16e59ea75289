"""The simulated API server, on which the operator's simulation stands, answers as a real one does:
the same requests are sent to both, and every answer is compared."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "kubernetes"))

from kubernetes_case import KubernetesCase, main  # noqa: E402
from servers import RealServer, Recorder, SimulatedServer, differences  # noqa: E402
from tools import BIN  # noqa: E402

FINALIZER = "lockstep.dev/test"
NO_UID = "00000000-0000-0000-0000-000000000000"


def job(name, **metadata):
    container = {"name": "trainer", "command": ["train"]}
    worker = {"name": "worker", "replicas": 3, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "lockstep.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name, **metadata},
        "spec": {"roles": [worker], "runPolicy": {"backoffLimit": 3}},
    }


def pod(name, labels=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        # Nobody schedules it, and no token has to be made for it.
        "spec": {
            "schedulerName": "nobody",
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "none"}],
            **spec,
        },
    }


def service(name, **spec):
    ports = [{"name": "rendezvous", "port": 2222, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "ports": ports, **spec},
    }


def owned(body, owner, **more):
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        **more,
    }
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}}


def options(**more):
    return {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", **more}


class Places:
    """Where things are, in the namespace of one test."""

    def __init__(self, namespace):
        self.jobs = f"/apis/lockstep.dev/v1/namespaces/{namespace}/trainingjobs"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.services = f"/api/v1/namespaces/{namespace}/services"
        self.secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self.leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


# Each is one conversation with a server.


def reads_and_creates(server, at):
    server.call("GET", f"{at.jobs}/a")
    created = server.call("POST", at.jobs, job("a", labels={"team": "x"}))
    server.call("GET", f"{at.jobs}/a")
    server.call("POST", at.jobs, job("a"))
    server.call("POST", at.jobs, job("b"))
    server.call("POST", at.jobs, "{")
    server.call("GET", at.jobs)
    server.call("GET", f"{at.jobs}?labelSelector=team%3Dx")
    server.call("GET", f"{at.jobs}?labelSelector=team")
    server.call("GET", f"{at.jobs}?labelSelector=%21team")
    server.call("GET", f"{at.jobs}?labelSelector=team%20in%20%28y%2Cz%29")
    server.call("GET", f"{at.jobs}?labelSelector=team%20notin%20%28y%2Cz%29")
    server.call("GET", f"{at.jobs}?resourceVersion=0")
    version = created["metadata"]["resourceVersion"]
    server.call("GET", f"{at.jobs}?resourceVersion={version}&labelSelector=team")
    server.call("GET", f"/apis/lockstep.dev/v1/namespaces/{server.namespace}/nothings/a")


def selects_pods_by_field(server, at):
    server.call("POST", at.pods, pod("bound", {"lockstep.dev/job": "j"}, nodeName="ghost"))
    server.call("POST", at.pods, pod("free"))
    for selector in ("spec.nodeName%21%3D", "spec.nodeName%3Dghost", "metadata.name%3Dfree",
                     "status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"):
        server.call("GET", f"{at.pods}?fieldSelector={selector}")
    server.call("GET", f"{at.pods}?labelSelector=%21lockstep.dev%2Fjob")


def counts_generations_and_refuses_old_versions(server, at):
    first = server.call("POST", at.jobs, job("a"))
    path = f"{at.jobs}/a"
    server.call("PUT", path, first)  # nothing new
    first["spec"]["runPolicy"]["backoffLimit"] = 4
    second = server.call("PUT", path, first)
    server.call("PUT", path, first)  # its version is the old one
    second["metadata"]["labels"] = {"team": "x"}
    third = server.call("PUT", path, second)
    server.call("PUT", path, {**third, "metadata": {"name": "a", "namespace": server.namespace}})
    wrong = {**third["metadata"], "uid": NO_UID}
    server.call("PUT", path, {**third, "metadata": wrong})
    server.call("PUT", f"{at.jobs}/b", {**third, "metadata": {**third["metadata"], "name": "b"}})


def keeps_status_apart(server, at):
    first = server.call("POST", at.jobs, {**job("a"), "status": {"attempt": 7}})
    path = f"{at.jobs}/a"
    first["status"] = {"attempt": 1}
    server.call("PUT", path, first)
    first["spec"]["runPolicy"]["backoffLimit"] = 9
    first["metadata"]["labels"] = {"team": "x"}
    second = server.call("PUT", f"{path}/status", first)
    server.call("PUT", f"{path}/status", first)
    server.call("PUT", f"{path}/status", second)  # nothing new
    server.call("PATCH", path, {"status": {"attempt": 2}}, "merge")
    server.call("PATCH", f"{path}/status", {"status": {"epoch": 2}}, "merge")
    server.call("GET", path)


def merges_patches(server, at):
    first = server.call("POST", at.jobs, job("a", labels={"x": "1", "y": "2"}))
    path = f"{at.jobs}/a"
    server.call("PATCH", path, {"metadata": {"labels": {"x": None, "z": "3"}}}, "merge")
    server.call("PATCH", path, {"spec": {"runPolicy": {"suspend": True}}}, "merge")
    server.call("PATCH", path, {"spec": {"runPolicy": {"suspend": True}}}, "merge")
    version = first["metadata"]["resourceVersion"]
    old = {"metadata": {"resourceVersion": version, "labels": {"late": "1"}}}
    server.call("PATCH", path, old, "merge")
    server.call("PATCH", f"{at.jobs}/b", {"spec": {}}, "merge")


def applies(server, at):
    path = f"{at.services}/a"
    mine = f"{path}?fieldManager=lockstep-operator"
    server.call("PATCH", mine, service("a"), "apply")
    server.call("PATCH", f"{mine}&force=true", service("a"), "apply")  # nothing new
    theirs = {**service("a"), "spec": {"publishNotReadyAddresses": False}}
    server.call("PATCH", f"{path}?fieldManager=user", theirs, "apply")  # a conflict
    server.call("PATCH", f"{path}?fieldManager=user&force=true", theirs, "apply")
    server.call("PATCH", mine, service("a"), "apply")  # the other way round
    server.call("PATCH", f"{mine}&force=true", service("a"), "apply")
    labelled = service("a")
    labelled["metadata"]["labels"] = {"team": "x"}
    server.call("PATCH", f"{mine}&force=true", labelled, "apply")
    server.call("PATCH", f"{mine}&force=true", service("a"), "apply")  # the label is dropped
    server.call("PATCH", path, service("a"), "apply")  # by nobody
    right = service("a")
    right["metadata"]["uid"] = server.look(path)["metadata"]["uid"]
    server.call("PATCH", f"{mine}&force=true", right, "apply")
    wrong = service("a")
    wrong["metadata"]["uid"] = NO_UID
    server.call("PATCH", f"{mine}&force=true", wrong, "apply")
    server.call("PATCH", f"{at.services}/b?fieldManager=x", {**wrong, "metadata": {
        "name": "b", "uid": NO_UID}}, "apply")


def deletes(server, at):
    first = server.call("POST", at.jobs, job("a"))
    path = f"{at.jobs}/a"
    wrong = {"uid": NO_UID}
    server.call("DELETE", path, options(preconditions=wrong))
    server.call("DELETE", path, options(preconditions={"resourceVersion": "1"}))
    server.call("DELETE", path, options(preconditions={"uid": first["metadata"]["uid"]}))
    server.call("DELETE", path, options())
    server.call("POST", at.jobs, job("a"))
    server.call("POST", at.services, service("a"))
    server.call("DELETE", f"{at.services}/a", options())
    server.call("POST", at.secrets, secret("a"))
    server.call("DELETE", f"{at.secrets}/a", options())


def waits_for_finalizers(server, at):
    server.call("POST", at.jobs, job("a", finalizers=[FINALIZER]))
    path = f"{at.jobs}/a"
    server.call("DELETE", path, options())
    server.call("DELETE", path, options())
    server.call("POST", at.jobs, job("a"))
    server.call("PATCH", path, {"metadata": {"labels": {"still": "there"}}}, "merge")
    server.call("PATCH", path, {"metadata": {"finalizers": None}}, "merge")
    server.call("GET", path)


def deletes_pods_gracefully(server, at):
    server.call("POST", at.pods, pod("free"))
    server.call("DELETE", f"{at.pods}/free", options())
    server.call("POST", at.pods, pod("bound", nodeName="ghost"))
    path = f"{at.pods}/bound"
    server.call("DELETE", path, options())
    server.call("DELETE", path, options(gracePeriodSeconds=60))
    server.call("DELETE", path, options(gracePeriodSeconds=5))
    server.call("DELETE", path, options(gracePeriodSeconds=0))
    server.call("GET", path)
    server.call("POST", at.pods, pod("ended", nodeName="ghost", terminationGracePeriodSeconds=7))
    path = f"{at.pods}/ended"
    server.call("PATCH", f"{path}/status", {"status": {"phase": "Failed"}}, "merge")
    server.call("DELETE", path, options())
    server.call("POST", at.pods, {**pod("empty"), "spec": {"containers": []}})


def secret(name):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"key": "a key\n"}}


def keeps_secrets_and_leases(server, at):
    server.call("POST", at.secrets, secret("a"))
    server.call("POST", at.secrets, secret("a"))
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
             "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15}}
    first = server.call("POST", at.leases, lease)
    server.call("POST", at.leases, lease)
    first["spec"]["holderIdentity"] = "two"
    server.call("PUT", f"{at.leases}/l", first)
    server.call("PUT", f"{at.leases}/l", first)


def collects_what_a_deleted_owner_leaves(server, at):
    owner = server.call("POST", at.jobs, job("a"))
    server.call("POST", at.pods, owned(pod("a-0"), owner))
    server.call("POST", at.services, owned(service("a"), owner))
    server.call("POST", at.pods, pod("stranger"))
    server.call("DELETE", f"{at.jobs}/a", options())
    server.wait_gone(f"{at.pods}/a-0")
    server.wait_gone(f"{at.services}/a")
    server.call("GET", at.pods)


def deletes_an_owner_after_its_dependents(server, at):
    owner = server.call("POST", at.jobs, job("a"))
    server.call("POST", at.pods, owned(pod("a-0"), owner, blockOwnerDeletion=True))
    server.call("DELETE", f"{at.jobs}/a", options(propagationPolicy="Foreground"))
    server.wait_gone(f"{at.jobs}/a")
    server.wait_gone(f"{at.pods}/a-0")


def collects_what_never_had_an_owner(server, at):
    owner = server.call("POST", at.jobs, job("a"))
    server.call("DELETE", f"{at.jobs}/a", options())
    server.call("POST", at.pods, owned(pod("a-0"), owner))
    server.wait_gone(f"{at.pods}/a-0")


def empties_a_namespace(server, at):
    server.call("POST", at.jobs, job("a", finalizers=[FINALIZER]))
    server.call("POST", at.services, service("b"))
    server.delete_namespace()
    server.wait_leaving(f"{at.jobs}/a")
    server.wait_gone(f"{at.services}/b")
    server.call("POST", at.pods, pod("c"))
    server.call("POST", at.jobs, job("a"))
    server.call("POST", at.jobs, job("d"))
    server.call("PATCH", f"{at.jobs}/a", {"metadata": {"finalizers": None}}, "merge")


def watches(server, at):
    version = server.call("GET", at.jobs)["metadata"]["resourceVersion"]
    watch = "?watch=1&allowWatchBookmarks=true&timeoutSeconds=20"
    server.call("POST", at.pods, pod("free"))
    server.call("DELETE", f"{at.pods}/free", options())
    server.watch(f"{at.pods}{watch}&resourceVersion={version}", 3)
    first = server.call("POST", at.jobs, job("a", labels={"team": "x"}))
    server.call("POST", at.jobs, job("b"))
    first["metadata"]["labels"] = {"team": "y"}
    second = server.call("PUT", f"{at.jobs}/a", first)
    second["metadata"]["labels"] = {"team": "x"}
    server.call("PUT", f"{at.jobs}/a", second)
    server.call("DELETE", f"{at.jobs}/a", options())
    watch = at.jobs + watch
    server.watch(f"{watch}&resourceVersion={version}", 5)
    server.watch(f"{watch}&resourceVersion={version}&labelSelector=team%3Dx", 4)
    server.watch(f"{watch}&resourceVersion={first['metadata']['resourceVersion']}", 4)


def streams_lists(server, at):
    server.call("POST", at.jobs, job("a"))
    server.call("POST", at.jobs, job("b", labels={"team": "x"}))
    watch = f"{at.jobs}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true"
    watch += "&resourceVersionMatch=NotOlderThan&timeoutSeconds=20"
    server.watch(watch, 3)
    server.watch(f"{watch}&labelSelector=team", 2)
    server.watch(f"{at.jobs}?watch=1&resourceVersion=0&timeoutSeconds=20", 2)


def pages_lists(server, at):
    for name in ("a", "b", "c"):
        server.call("POST", at.jobs, job(name))
    page = server.call("GET", f"{at.jobs}?limit=2")
    server.call("DELETE", f"{at.jobs}/c", options())
    token = page["metadata"]["continue"]
    server.call("GET", f"{at.jobs}?limit=2&continue={token}")


def says_what_is_too_old_and_too_new(server, at):
    server.call("POST", at.jobs, job("a"))
    server.compact()
    server.watch(f"{at.jobs}?watch=1&resourceVersion=1&timeoutSeconds=20", 1)
    server.call("GET", f"{at.jobs}?resourceVersion=999999999")


CONVERSATIONS = [
    reads_and_creates, selects_pods_by_field, counts_generations_and_refuses_old_versions,
    keeps_status_apart, merges_patches, applies, deletes, waits_for_finalizers,
    deletes_pods_gracefully, keeps_secrets_and_leases, collects_what_a_deleted_owner_leaves,
    deletes_an_owner_after_its_dependents, collects_what_never_had_an_owner,
    empties_a_namespace, watches, streams_lists, pages_lists, says_what_is_too_old_and_too_new,
]


class ConformanceTest(KubernetesCase):
    """One test for each conversation."""

    @classmethod
    def start_more(cls):
        cls.simulated = SimulatedServer(BIN / "sim-api-server")
        cls.addClassCleanup(cls.simulated.close)
        cls.real = RealServer(cls.plane)
        cls.addClassCleanup(cls.real.close)

    def compare(self, conversation):
        namespace = conversation.__name__.replace("_", "-")
        answers = []
        for server in (self.simulated, self.real):
            recorder = Recorder(server, namespace)
            conversation(recorder, Places(namespace))
            answers.append(recorder.answers())
        found = []
        for simulated, real in zip(*answers):
            found += differences(simulated[1:], real[1:], simulated[0])
        self.assertEqual(len(answers[0]), len(answers[1]))
        self.assertFalse(found, "\n" + "\n".join(found))


for _conversation in CONVERSATIONS:
    setattr(
        ConformanceTest,
        f"test_{_conversation.__name__}",
        lambda self, conversation=_conversation: self.compare(conversation),
    )

if __name__ == "__main__":
    main()
