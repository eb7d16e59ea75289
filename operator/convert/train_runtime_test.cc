#include "operator/convert/train_runtime.h"

#include <gtest/gtest.h>

#include "operator/convert/testing/converted.h"

namespace lockstep::control {
namespace {

// A TrainJob of the runtime `name` with `trainer`.
std::string JobOfRuntime(const std::string& name, const std::string& trainer) {
  return "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: t}\nspec:\n"
         "  runtimeRef: {name: " +
         name + "}\n  trainer: {" + trainer + "}\n";
}

// Behind it, the runtime "mine" with the policy `policy`.
std::string RuntimeOf(const std::string& policy) {
  return R"(---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: mine}
spec:
  mlPolicy: {)" +
         policy + R"(}
  template:
    spec:
      replicatedJobs:
      - name: model-initializer
        template: {spec: {template: {spec: {containers: [{name: model-initializer, image: m}]}}}}
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                nodeSelector: {gpu: a}
                volumes: [{name: v, emptyDir: {}}]
                containers:
                - name: node
                  image: base
                  command: [torchrun, old.py]
                  env: [{name: A, value: "1"}, {name: B, value: "1"}]
                  volumeMounts: [{name: v, mountPath: /v}]
                  resources: {limits: {nvidia.com/gpu: 2}}
)";
}

TEST(ConvertTrainJob, RuntimeOfTheSameFileIsPartOfTheJob) {
  const Conversion conversion =
      ConvertText(JobOfRuntime("mine", "command: [torchrun, t.py], env: [{name: B, value: '2'}]") +
                  RuntimeOf("numNodes: 3, torch: {numProcPerNode: 4}"));
  const Json role = FirstRole(conversion);
  EXPECT_EQ(role["replicas"], 3);
  EXPECT_EQ(role["processes"], 4);
  EXPECT_EQ(role["template"]["spec"]["nodeSelector"], Json({{"gpu", "a"}}));
  const Json container = FirstContainer(conversion);
  EXPECT_EQ(container["image"], "base");
  EXPECT_EQ(container["command"], Json({"torchrun", "t.py"}));
  EXPECT_EQ(container["env"],
            Json::array({{{"name", "A"}, {"value", "1"}}, {{"name", "B"}, {"value", "2"}}}));
  EXPECT_EQ(container["volumeMounts"][0]["mountPath"], "/v");
  const std::string notes = NotesOf(conversion);
  EXPECT_EQ(notes.find("not in this file"), std::string::npos) << notes;
  ExpectNote(
      conversion,
      "ClusterTrainingRuntime mine: spec.template.spec.replicatedJobs[0].name: not kept: only the "
      "pods of the replicated job \"node\" train; the pods of model-initializer are left out\n");
  ExpectNote(conversion, "containers[0].command: not kept: spec.trainer.command replaces it\n");
}

TEST(ConvertTrainJob, JobWinsOverItsRuntime) {
  const Conversion conversion = ConvertText(
      JobOfRuntime(
          "mine",
          "image: i, numNodes: 2, numProcPerNode: 1, resourcesPerNode: {limits: {cpu: 1}}") +
      RuntimeOf("numNodes: 3, torch: {numProcPerNode: auto}"));
  EXPECT_EQ(FirstRole(conversion)["replicas"], 2);
  EXPECT_EQ(FirstRole(conversion)["processes"], 1);
  EXPECT_EQ(FirstContainer(conversion)["image"], "i");
  EXPECT_EQ(FirstContainer(conversion)["command"], Json({"torchrun", "old.py"}));
  EXPECT_EQ(FirstContainer(conversion)["resources"], Json({{"limits", {{"cpu", 1}}}}));
}

TEST(ConvertTrainJob, RuntimeOfAnotherNameOrKindIsNotTheJobs) {
  for (const char* const ref : {"other", "mine, kind: TrainingRuntime"}) {
    ExpectNote(ConvertText(JobOfRuntime(ref, "image: i, command: [a]") + RuntimeOf("numNodes: 3")),
               "is not in this file, so the job lacks what this runtime adds to the pods");
  }
}

TEST(ConvertTrainJob, RuntimeThatStartsTheRanksItselfIsRefused) {
  const std::string flux =
      "spec.runtimeRef.name: a Flux runtime found, expected a torch runtime: Flux starts the ranks "
      "itself\n";
  const std::string mpi =
      "spec.runtimeRef.name: an MPI runtime found, expected trainer.command to begin with mpirun\n";
  const std::string plain = "image: i, command: [python, t.py]";
  EXPECT_EQ(ErrorsOf(ConvertText(JobOfRuntime("flux-runtime", plain))), flux);
  EXPECT_EQ(ErrorsOf(ConvertText(JobOfRuntime("deepspeed-distributed", plain))), mpi);
  EXPECT_EQ(ErrorsOf(ConvertText(JobOfRuntime("mine", plain) + RuntimeOf("flux: {}"))), flux);
  EXPECT_EQ(
      ErrorsOf(ConvertText(JobOfRuntime("mine", plain) + RuntimeOf("mpi: {numProcPerNode: 2}"))),
      mpi);

  const Conversion started = ConvertText(JobOfRuntime("mine", "command: [mpirun, python, t.py]") +
                                         RuntimeOf("mpi: {numProcPerNode: 2}"));
  EXPECT_EQ(started.job["spec"]["strategy"], "Horovod");
  EXPECT_EQ(FirstRole(started)["processes"], 2);
}

}  // namespace
}  // namespace lockstep::control
