"""The chart on a real API server: installed, upgraded, uninstalled, and what it lets the operator
do. No operator runs here; tests/cluster installs it with its image."""

import contextlib
import copy
import shutil

from helm import CHART, REPOSITORY, helm
from client import ApiError
from control_plane import CONTROL_PLANE_TOOLS
from kubernetes_case import KubernetesCase, main

DEFINITION = "trainingjobs.lockstep.dev"
DEFINITIONS = (DEFINITION, "trainingqueues.lockstep.dev")
EVERYWHERE = None
# (verb, group:resource, namespace, name): what the operator may do with the chart's own values.
MAY = [
    ("list", "lockstep.dev:trainingjobs", EVERYWHERE, ""),
    ("watch", "lockstep.dev:trainingjobs", EVERYWHERE, ""),
    ("delete", "lockstep.dev:trainingjobs", "team", ""),
    ("list", "lockstep.dev:trainingqueues", EVERYWHERE, ""),
    ("watch", "lockstep.dev:trainingqueues", EVERYWHERE, ""),
    ("patch", "lockstep.dev:trainingqueues/status", EVERYWHERE, ""),
    ("list", "scheduling.k8s.io:priorityclasses", EVERYWHERE, ""),
    ("watch", "scheduling.k8s.io:priorityclasses", EVERYWHERE, ""),
    ("update", "lockstep.dev:trainingjobs/status", "team", ""),
    ("create", ":pods", "team", ""),
    ("delete", ":pods", "team", ""),
    ("patch", ":pods", "team", ""),  # to give labels back
    ("watch", ":pods", EVERYWHERE, ""),
    ("watch", ":nodes", EVERYWHERE, ""),
    ("create", ":services", "team", ""),
    ("create", ":secrets", "team", ""),
    ("create", ":events", "team", ""),
    ("create", "coordination.k8s.io:leases", "home", ""),
    ("list", "coordination.k8s.io:leases", EVERYWHERE, ""),
    ("update", "coordination.k8s.io:leases", "home", "lockstep"),
    ("get", ":secrets", "home", "lockstep-key"),
]
# What it may not: to read secrets, to run things elsewhere, to change jobs or its own rights.
MAY_NOT = [
    ("get", ":secrets", "team", ""),
    ("list", ":secrets", EVERYWHERE, ""),
    ("get", ":secrets", "home", "another"),
    ("update", "coordination.k8s.io:leases", "team", "lockstep"),
    ("update", "coordination.k8s.io:leases", "home", "another"),
    ("create", "lockstep.dev:trainingjobs", "team", ""),
    ("patch", "lockstep.dev:trainingjobs", "team", ""),
    ("update", "lockstep.dev:trainingqueues", EVERYWHERE, ""),
    ("create", ":pods/exec", "team", ""),
    ("create", "apps:deployments", "home", ""),
    ("patch", ":nodes", EVERYWHERE, ""),
    ("get", ":configmaps", "home", ""),
    ("create", "rbac.authorization.k8s.io:rolebindings", "home", ""),
]


class InstallTest(KubernetesCase):
    options = {"crds": []}
    tools = (*CONTROL_PLANE_TOOLS, "helm")

    def setUp(self):
        self.namespace = self.make_namespace()
        self.home = self.plane.folder / self.namespace
        self.home.mkdir()
        self.addCleanup(self.forget_release)

    def forget_release(self):
        """Leaves the API server to the next test without a definition."""
        self.helm("uninstall", "lockstep", "--ignore-not-found", "--wait")
        self.wait_for(self.are_definitions_gone, 200, "the definitions to be gone")

    def are_definitions_gone(self):
        """Asks the server to drop them: half a second mostly, but it has been seen to keep one for
        minutes, and to drop it at once when asked again."""
        left = [each for each in DEFINITIONS if self.admin.find("CustomResourceDefinition", each)]
        for each in left:
            with contextlib.suppress(ApiError):  # it went meanwhile
                self.admin.delete("CustomResourceDefinition", each)
        return not left

    def helm(self, *arguments):
        code, output, errors = helm(
            self.home, *arguments, "--namespace", self.namespace, kubeconfig=self.plane.kubeconfig()
        )
        self.assertEqual(code, 0, errors)
        return output

    def may(self, verb, resource, namespace, name):
        group, _, rest = resource.partition(":")
        plural, _, subresource = rest.partition("/")
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{self.namespace}:lockstep",
                "resourceAttributes": {
                    "verb": verb, "group": group, "resource": plural, "subresource": subresource,
                    "namespace": self.namespace if namespace == "home" else namespace or "",
                    "name": name,
                },
            },
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return self.admin.request("POST", path, review)["status"]["allowed"]

    def definition(self):
        return self.admin.get("CustomResourceDefinition", DEFINITION)

    def apply_example(self):
        self.plane.kubectl("wait", "--for=condition=Established", f"crd/{DEFINITION}")
        self.plane.kubectl(
            "apply", "-n", self.namespace, "-f", REPOSITORY / "examples" / "mnist.yaml"
        )

    def test_pods_of_the_operator_are_admitted_under_restricted(self):
        label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
        self.admin.patch("Namespace", self.namespace, label)
        self.helm("install", "lockstep", CHART)
        pods = self.wait_for(lambda: self.admin.list("Pod", self.namespace), 30, "the pod")
        self.assertEqual(len(pods), 1)
        # What restricted does not ask for, and we want.
        container = pods[0]["spec"]["containers"][0]
        self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
        self.assertGreater(pods[0]["spec"]["terminationGracePeriodSeconds"], 30)

    def test_rights_are_those_and_no_others(self):
        self.helm("install", "lockstep", CHART)
        self.wait_for(lambda: self.may(*MAY[0]), 10, "the rights to be in force")
        for request in MAY:
            self.assertTrue(self.may(*request), request)
        for request in MAY_NOT:
            self.assertFalse(self.may(*request), request)

    def test_writes_only_in_the_namespaces_it_looks_after(self):
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        self.helm("install", "lockstep", CHART, "--set", "watchNamespaces={team}")
        self.wait_for(
            lambda: self.may("create", ":pods", "team", ""), 10, "the rights to be in force"
        )
        self.assertTrue(self.may("list", "lockstep.dev:trainingjobs", "team", ""))
        self.assertTrue(self.may("watch", ":pods", EVERYWHERE, ""))
        for verb, resource, _, name in MAY:
            everybodys = (":nodes", ":pods", "lockstep.dev:trainingqueues",
                          "lockstep.dev:trainingqueues/status", "scheduling.k8s.io:priorityclasses")
            if resource not in everybodys and "leases" not in resource:
                self.assertFalse(self.may(verb, resource, "stranger", name), resource)
        self.assertFalse(self.may("create", ":pods", "stranger", ""))

    def test_a_namespace_that_is_not_there_is_named_before_anything_is_made(self):
        install = ("install", "lockstep", CHART, "--set", "watchNamespaces={later}",
                   "--namespace", self.namespace)
        code, _, errors = helm(self.home, *install, kubeconfig=self.plane.kubeconfig())
        self.assertNotEqual(code, 0)
        self.assertIn("watchNamespaces: namespace later does not exist, so nothing was "
                      "installed; create it first: kubectl create namespace later", errors)
        self.assertEqual(self.helm("list", "--all", "--short"), "")
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}})
        self.helm(*install[:-2])

    def test_an_upgrade_brings_the_new_definition_and_leaves_jobs_alone(self):
        older = self.home / "older"
        shutil.copytree(CHART, older)
        file = older / "files" / "lockstep.dev_trainingjobs.yaml"
        self.assertEqual(file.read_text().count("shortNames:"), 1)
        file.write_text(file.read_text().replace("- tj\n", "- oldname\n", 1)
                        .replace("[tj]", "[oldname]", 1))
        self.helm("install", "lockstep", older)
        self.assertEqual(self.definition()["spec"]["names"]["shortNames"], ["oldname"])
        self.apply_example()
        before = self.admin.get("TrainingJob", "mnist", self.namespace)
        self.helm("upgrade", "lockstep", CHART)
        self.assertEqual(self.definition()["spec"]["names"]["shortNames"], ["tj"])
        self.assertEqual(self.admin.get("TrainingJob", "mnist", self.namespace), before)

    def test_uninstall_leaves_the_definition_and_jobs_and_nothing_else(self):
        self.helm("install", "lockstep", CHART)
        self.apply_example()
        self.helm("uninstall", "lockstep", "--wait")
        self.assertIsNotNone(self.admin.find("TrainingJob", "mnist", self.namespace))
        left = {
            kind: self.admin.list(kind, None, labels="app.kubernetes.io/instance=lockstep")
            for kind in ("CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Role",
                         "RoleBinding", "ServiceAccount", "Service")
        }
        self.assertEqual(len(left.pop("CustomResourceDefinition")), len(DEFINITIONS))
        self.assertEqual(left, {kind: [] for kind in left})
        # And the next installation finds the jobs again, also one of another name.
        self.helm("install", "lockstep", CHART)
        self.helm("uninstall", "lockstep", "--wait")
        self.helm("install", "other-lockstep", CHART, "--take-ownership")
        self.assertIsNotNone(self.admin.find("TrainingJob", "mnist", self.namespace))
        self.helm("uninstall", "other-lockstep", "--wait")

    def test_the_definition_on_the_server_is_the_one_in_crds(self):
        self.helm("install", "lockstep", CHART)
        installed = copy.deepcopy(self.definition()["spec"])
        self.forget_release()
        self.plane.kubectl("create", "-f", REPOSITORY / "crds" / "lockstep.dev_trainingjobs.yaml")
        self.assertEqual(installed, self.definition()["spec"])


if __name__ == "__main__":
    main()
