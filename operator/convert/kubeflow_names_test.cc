#include "operator/convert/kubeflow_names.h"

#include <gtest/gtest.h>

#include "operator/convert/testing/converted.h"

namespace lockstep::control {
namespace {

// What is said of a PyTorchJob called "aff" whose pods are `pod`, and whose container has `more`.
std::string NotesOfJob(const std::string& more, const std::string& pod = "", int spaces = 0) {
  return NotesOf(ConvertText(
      "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: aff}\nspec:\n"
      "  runPolicy: {backoffLimit: 1}\n  pytorchReplicaSpecs:\n    Worker:\n      replicas: 2\n"
      "      template:\n        metadata: {labels: {training.kubeflow.org/mine: x}}\n"
      "        spec:\n          containers: [{name: pytorch, image: i" +
      more + "}]\n" + std::string(spaces, ' ') + pod));
}

constexpr const char* kWorkersPod = "spec.pytorchReplicaSpecs.Worker.template.spec.";

TEST(KubeflowNames, LabelsOfPodsThatVariablesReadAreSaid) {
  const std::string notes = NotesOfJob(
      ", command: [a], env: [{name: I, valueFrom: {fieldRef: {fieldPath: "
      "\"metadata.labels['training.kubeflow.org/replica-index']\"}}}, {name: O, valueFrom: "
      "{fieldRef: {fieldPath: \"metadata.labels['training.kubeflow.org/operator-name']\"}}}]");
  const std::string at = std::string(kWorkersPod) + "containers[0].env";
  EXPECT_EQ(notes,
            at +
                "[0].valueFrom.fieldRef.fieldPath: training.kubeflow.org/replica-index is a label "
                "that Kubeflow sets on its pods, but Lockstep does not: use lockstep.dev/index\n" +
                at +
                "[1].valueFrom.fieldRef.fieldPath: training.kubeflow.org/operator-name is a label "
                "that Kubeflow sets on its pods, but Lockstep does not\n");
}

TEST(KubeflowNames, LabelsThatSelectorsLookForAreSaidUnlessTheManifestGivesThem) {
  const auto notes = [](const std::string& label) {
    return NotesOfJob(", command: [a]",
                      "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, "
                      "whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {" +
                          label + ": aff}}}]\n",
                      10);
  };
  EXPECT_EQ(notes("training.kubeflow.org/job-name"),
            std::string(kWorkersPod) +
                "topologySpreadConstraints[0].labelSelector.matchLabels: "
                "training.kubeflow.org/job-name is a label that Kubeflow sets on its pods, but "
                "Lockstep does not: use lockstep.dev/job\n");
  EXPECT_EQ(notes("training.kubeflow.org/mine"), "");
}

TEST(KubeflowNames, HostsThatProgramsAreToldOfAreSaid) {
  const std::string rest =
      " is a host name of Kubeflow: a pod of Lockstep has the address aff-ROLE-INDEX.aff, and "
      "MASTER_ADDR has "
      "the address of rank 0\n";
  EXPECT_EQ(NotesOfJob(", command: [a, 'tcp://aff-master-0:23456'], env: [{name: P, value: "
                       "aff-worker-0.ml.svc}]"),
            std::string(kWorkersPod) + "containers[0].command[1]: aff-master-0" + rest +
                kWorkersPod + "containers[0].env[0].value: aff-worker-0" + rest);
  EXPECT_NE(NotesOfJob(", command: [torchrun, --nproc-per-node=2, --rdzv-endpoint, "
                       "'aff-master-0:2', a]")
                .find("command[3]: aff-master-0" + rest),
            std::string::npos);
  EXPECT_EQ(NotesOfJob(", command: [a, aff-worker-0.aff, other-aff-master-0, /data/aff-set]"), "");
}

// A pod a node, as public manifests ask for it.
TEST(KubeflowNames, AffinityToPodsOfTheJobSelectsThemByOurLabels) {
  const auto job = [](const std::string& selector) {
    return ConvertText(R"(apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          affinity:
            podAntiAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
              - {topologyKey: kubernetes.io/hostname, labelSelector: )" +
                       selector + R"(}
          containers: [{name: pytorch, image: i, command: [python, t.py]}]
)");
  };
  for (const char* const selector :
       {"{matchLabels: {training.kubeflow.org/job-name: bert}}",
        "{matchExpressions: [{key: training.kubeflow.org/job-name, operator: In, values: [bert]}, "
        "{key: training.kubeflow.org/replica-type, operator: In, values: [Worker]}]}"}) {
    const Conversion conversion = job(selector);
    EXPECT_EQ(ErrorsOf(conversion), "") << selector;
    ExpectNote(conversion, "affinity: training.kubeflow.org/job-name is lockstep.dev/job here");
    EXPECT_EQ(NotesOf(conversion).find("is a label that Kubeflow sets"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::control
