#include <gtest/gtest.h>

#include "operator/convert/conversion.h"
#include "operator/convert/testing/converted.h"
#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

constexpr const char* kTrainJob = R"(
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: t}
spec:
  runtimeRef: {name: torch}
  managedBy: trainer.kubeflow.org/trainjob-controller
  trainer: {image: i, numNodes: 2, command: [a], env: [{name: A, value: "1"}]}
)";

TEST(ConvertTrainJob, OverridesReachThePods) {
  const Conversion conversion = ConvertText(std::string(kTrainJob) + R"(
  podTemplateOverrides:
  - targetJobs: [{name: node}]
    metadata: {labels: {z: z}}
    spec:
      nodeSelector: {x: w}
      tolerations: [{key: g, operator: Exists}]
      volumes: [{name: v, emptyDir: {}}]
      containers:
      - {name: node, volumeMounts: [{name: v, mountPath: /v}], env: [{name: B, value: "2"}]}
      - {name: other, env: [{name: C, value: "3"}]}
      initContainers: [{name: q, env: [{name: D, value: "4"}]}]
  - targetJobs: [{name: dataset-initializer}]
    spec: {serviceAccountName: none}
  podSpecOverrides:
  - targetJobs: [{name: node}]
    serviceAccountName: sb
)");
  const Json pod = conversion.job["spec"]["roles"][0]["template"];
  EXPECT_EQ(pod["metadata"]["labels"]["z"], "z");
  EXPECT_EQ(pod["spec"]["nodeSelector"]["x"], "w");
  EXPECT_EQ(pod["spec"]["tolerations"][0]["key"], "g");
  EXPECT_EQ(pod["spec"]["serviceAccountName"], "sb");
  EXPECT_FALSE(pod["spec"].contains("initContainers"));
  const Json container = pod["spec"]["containers"][0];
  EXPECT_EQ(container["volumeMounts"][0]["mountPath"], "/v");
  EXPECT_EQ(container["env"],
            Json::array({{{"name", "A"}, {"value", "1"}}, {{"name", "B"}, {"value", "2"}}}));
  const std::string notes = NotesOf(conversion);
  const std::string of_runtime =
      ".name: not kept: only the container node of the runtime can be patched\n";
  for (const std::string& note :
       {"spec.podTemplateOverrides[0].spec.containers[1]" + of_runtime,
        "spec.podTemplateOverrides[0].spec.initContainers[0]" + of_runtime,
        std::string("spec.podTemplateOverrides[1].targetJobs: not kept: only patches of the "
                    "replicated job")}) {
    EXPECT_NE(notes.find(note), std::string::npos) << notes;
  }
  EXPECT_EQ(notes.find("no such field"), std::string::npos) << notes;
  EXPECT_EQ(notes.find("is a label"), std::string::npos) << notes;
  EXPECT_EQ(ForeignField(conversion, "spec.roles[0].template.spec.tolerations[0].key"),
            "spec.podTemplateOverrides[0].spec.tolerations[0].key");
  EXPECT_EQ(ForeignField(conversion, "spec.roles[0].template.spec.containers[0].env[1].value"),
            "spec.podTemplateOverrides[0].spec.containers[0].env[0].value");
}

// Without a GPU Kubeflow's operator tells torchrun of the cores that a pod asks for.
TEST(ConvertTrainJob, ProcessesThatNobodySaysAreTheDevicesOrCoresAskedFor) {
  const auto convert = [](const std::string& of_trainer) {
    std::string text = kTrainJob;
    text.replace(text.find("command: [a]"), 12, "command: [torchrun, t.py], " + of_trainer);
    return ConvertText(text);
  };
  const auto processes = [&](const std::string& amounts) {
    const Conversion conversion = convert("resourcesPerNode: {" + amounts + "}");
    EXPECT_EQ(NotesOf(conversion).find("numProcPerNode"), std::string::npos) << NotesOf(conversion);
    return conversion.job["spec"]["roles"][0].value("processes", Json());
  };
  EXPECT_EQ(processes("limits: {cpu: 4}"), 4);
  EXPECT_EQ(processes("requests: {cpu: 1500m}, limits: {cpu: 4}"), 2);
  EXPECT_EQ(processes("limits: {cpu: 4, nvidia.com/gpu: 2}"), Json());
  const Conversion other = convert("resourcesPerNode: {limits: {cpu: 4, amd.com/gpu: 2}}");
  EXPECT_EQ(FirstEnv(other).back(), Json({{"name", "PET_NPROC_PER_NODE"}, {"value", "auto"}}));
  EXPECT_NE(NotesOf(convert("args: [x]"))
                .find("spec.trainer.numProcPerNode: not set, which meant one process for each GPU "
                      "or core that the runtime requests: a TrainingJob starts one process"),
            std::string::npos);
}

TEST(ConvertTrainJob, NoNodesAreReportedWhereTheyAreCounted) {
  std::string text = kTrainJob;
  text.replace(text.find("numNodes: 2"), 11, "numNodes: 0");
  const Conversion conversion = ConvertForeignJob(ReadYaml(text).documents.at(0).value, {});
  EXPECT_EQ(ForeignField(conversion, "spec.roles"), "spec.trainer.numNodes");
}

}  // namespace
}  // namespace lockstep::control
