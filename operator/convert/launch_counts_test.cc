#include <gtest/gtest.h>

#include "operator/convert/conversion.h"
#include "operator/convert/testing/converted.h"
#include "operator/yaml/yaml.h"

// How many ranks TFJobs and PyTorchJobs have whose pods start mpirun or horovodrun.

namespace lockstep::control {
namespace {

constexpr const char* kOfPyTorch =
    "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command: ";

struct Pods {
  int count = 2;
  int gpus = 0;
  std::string more = {};  // of the job
};

// A PyTorchJob or TFJob of `pods` that run `command`.
std::string LaunchedJob(const std::string& kind, const std::string& command, const Pods& pods) {
  const bool is_torch = kind == "PyTorchJob";
  return "apiVersion: kubeflow.org/v1\nkind: " + kind +
         "\nmetadata: {name: j}\nspec:\n  runPolicy: {backoffLimit: 1}\n" + pods.more + "  " +
         (is_torch ? "pytorch" : "tf") +
         "ReplicaSpecs:\n    Worker:\n      replicas: " + std::to_string(pods.count) +
         "\n      template: {spec: {containers: [{name: " + (is_torch ? "pytorch" : "tensorflow") +
         ", image: i, command: [" + command +
         "], resources: {limits: {nvidia.com/gpu: " + std::to_string(pods.gpus) + "}}}]}}\n";
}

Conversion ConvertPyTorch(const std::string& command, const Pods& pods = {}) {
  return ConvertText(LaunchedJob("PyTorchJob", command, pods));
}

Json ProcessesOf(const Conversion& conversion) {
  return FirstRole(conversion).value("processes", Json());
}

bool HasNote(const Conversion& conversion, const std::string& text) {
  return NotesOf(conversion).find(text) != std::string::npos;
}

TEST(ConvertPyTorchJob, MpirunMakesAHorovodJobOfAsManyRanks) {
  const Conversion alone =
      ConvertPyTorch("horovodrun, -np, '4', -H, 'localhost:4', python, t.py", {1, 4});
  EXPECT_EQ(alone.job["spec"]["strategy"], "Horovod");
  EXPECT_EQ(ProcessesOf(alone), 4);
  EXPECT_FALSE(HasNote(alone, "asked for")) << NotesOf(alone);

  const Conversion several = ConvertPyTorch("mpirun, -np, '8', python, t.py", {2, 4});
  EXPECT_EQ(several.job["spec"]["strategy"], "Horovod");
  EXPECT_EQ(ProcessesOf(several), 8);
  EXPECT_TRUE(HasNote(several,
                      std::string(kOfPyTorch) +
                          "8 ranks were asked for; the job has 16, 8 in each of its pods: set the "
                          "role's processes for another number\n"))
      << NotesOf(several);
  EXPECT_TRUE(HasNote(several, "MPI programs (nccl-tests, GROMACS) will not work; Horovod will"));

  EXPECT_EQ(ProcessesOf(ConvertPyTorch("mpirun, -np, '8', -npernode, '4', python, t.py")), 4);
  EXPECT_TRUE(HasNote(ConvertPyTorch("mpirun, python, t.py"),
                      "mpirun that is told no number starts as many ranks as the pod has cores; "
                      "the job has 2, 1 in each of its pods"));
}

TEST(ConvertTfJob, HorovodrunMakesAHorovodJobOfAsManyRanks) {
  const std::string text = LaunchedJob("TFJob", "horovodrun, -np, '4', python, t.py", {1, 4});
  const Conversion conversion = ConvertText(text);
  EXPECT_EQ(conversion.job["spec"]["strategy"], "Horovod");
  EXPECT_EQ(ProcessesOf(conversion), 4);

  std::string with_ps = text;
  with_ps +=
      "    PS: {template: {spec: {containers: [{name: tensorflow, image: i, command: [a]}]}}}\n";
  EXPECT_EQ(ErrorsOf(ConvertText(with_ps)),
            "spec.tfReplicaSpecs.PS: found beside mpirun or horovodrun, expected none: Horovod has "
            "no such role\n");
}

TEST(ConvertTfJob, SuccessPolicyOfAnotherNameIsRefused) {
  EXPECT_EQ(ErrorsOf(ConvertText(LaunchedJob("TFJob", "a", {2, 0, "  successPolicy: Foo\n"}))),
            "spec.successPolicy: \"Foo\" found, expected AllWorkers or nothing\n");
}

TEST(ConvertPyTorchJob, ProcessesThatAreNoTextAreRefusedAndNotCalledMissing) {
  const Conversion conversion = ConvertPyTorch("torchrun, t.py", {2, 0, "  nprocPerNode: 4\n"});
  EXPECT_EQ(ErrorsOf(conversion), "spec.nprocPerNode: 4 found, expected a text\n");
  EXPECT_FALSE(HasNote(conversion, "not there"));
}

TEST(ConvertPyTorchJob, NoPodsAreReportedWhereTheRolesAre) {
  const std::string text = LaunchedJob("PyTorchJob", "a", {0});
  const Conversion conversion = ConvertForeignJob(ReadYaml(text).documents.at(0).value, {});
  EXPECT_EQ(ForeignField(conversion, "spec.roles"), "spec.pytorchReplicaSpecs");
}

}  // namespace
}  // namespace lockstep::control
