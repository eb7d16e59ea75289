#include "operator/convert/kubeflow_job.h"

#include <gtest/gtest.h>

#include "operator/convert/conversion.h"
#include "operator/convert/testing/converted.h"

namespace lockstep::control {
namespace {

constexpr const char* kAnyCommand = "command: [a]";

std::string RoleOf(const std::string& type, const std::string& more = "") {
  return Replica(type, kAnyCommand, more);
}

// A job of one worker whose pod has `pod`, and its container `container`.
Conversion ConvertWorker(const std::string& kind,
                         const std::string& container,
                         const std::string& pod) {
  return ConvertText(KubeflowJob(kind,
                                 "Worker: {template: {spec: {" + pod +
                                     ", containers: [{name: c, image: i, " + container + "}]}}}"));
}

void ExpectNoNote(const Conversion& conversion, const std::string& note) {
  const std::string notes = NotesOf(conversion);
  EXPECT_EQ(notes.find(note), std::string::npos) << notes;
}

TEST(ConvertRunPolicy, TimeoutThatTriedAgainDoesNotFailTheJob) {
  const Conversion conversion = ConvertText(
      KubeflowJob("TFJob",
                  RoleOf("Worker"),
                  "runPolicy: {schedulingPolicy: {scheduleTimeoutSeconds: 60, queue: q}}"));
  EXPECT_EQ(conversion.job["spec"]["scheduling"], Json({{"queue", "q"}}));
  ExpectNote(
      conversion,
      "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds: not kept: a TrainingJob waits");
}

TEST(ConvertRunPolicy, PodsThatWorkedOnAfterTheSuccessAreToldOf) {
  const std::string note = "spec.runPolicy.cleanPodPolicy: in Kubeflow, None (the default) lets";
  const std::string two = RoleOf("Chief") + RoleOf("Worker");
  ExpectNote(ConvertText(KubeflowJob("TFJob", two)), note);
  ExpectNote(ConvertText(KubeflowJob("TFJob", RoleOf("Worker") + RoleOf("Evaluator"))), note);
  for (const std::string& job : {KubeflowJob("TFJob", RoleOf("Worker", "replicas: 2")),
                                 KubeflowJob("TFJob", two, "successPolicy: AllWorkers"),
                                 KubeflowJob("TFJob", two, "runPolicy: {cleanPodPolicy: All}")}) {
    ExpectNoNote(ConvertText(job), note);
  }
  ExpectNote(ConvertText(KubeflowJob("TFJob", two, "successPolicy: AllWorkers")),
             "spec.successPolicy: kept: the job succeeds when the chief and every worker have");
  EXPECT_EQ(ErrorsOf(ConvertText(KubeflowJob("TFJob", two, "successPolicy: Foo"))),
            "spec.successPolicy: \"Foo\" found, expected AllWorkers or an empty value\n");
}

TEST(NoteExitCodes, CodesThatAreHandledOtherwiseAreNamed) {
  for (const char* const kind : {"TFJob", "PyTorchJob"}) {
    ExpectNote(ConvertText(KubeflowJob(kind, RoleOf("Worker", "restartPolicy: ExitCode"))),
               "Worker.restartPolicy: kept, but other exit codes lead to a retry. Kubeflow retried "
               "only 128 to 255");
    ExpectNoNote(ConvertText(KubeflowJob(kind, RoleOf("Worker"))), "other codes");
  }
}

TEST(ConvertTfJob, MasterIsAChiefForTfConfig) {
  ExpectNote(ConvertText(KubeflowJob("TFJob", RoleOf("Master"))),
             "spec.tfReplicaSpecs.Master: kept as chief: TF_CONFIG has chief");
  ExpectNoNote(ConvertText(KubeflowJob("TFJob", RoleOf("Chief"))), "TF_CONFIG has");
}

TEST(ConvertPyTorchJob, PodThatSeesNoGpuIsToldOf) {
  const auto convert = [](const std::string& command, const std::string& limits) {
    return ConvertWorker("PyTorchJob",
                         "command: [" + command +
                             "], ports: [{name: pytorchjob-port, containerPort: 1234}], resources: "
                             "{limits: {" +
                             limits + "}}",
                         "runtimeClassName: nvidia");
  };
  const std::string note =
      "containers[0].resources: the pod requests no GPU, so it sees none, even with "
      "runtimeClassName nvidia";
  ExpectNote(convert("python, t.py", "cpu: 1"), note);
  ExpectNoNote(convert("python, t.py", "nvidia.com/gpu: 1"), note);
  ExpectNote(convert("torchrun, --nproc-per-node=gpu, t.py", "cpu: 1"),
             "command: \"gpu\" found, but the pod requests no GPU: Lockstep hides all GPUs from "
             "such a pod");
  ExpectNote(convert("python, t.py", "cpu: 1"),
             "containers[0].ports[0]: was the value of MASTER_PORT; in the TrainingJob, "
             "MASTER_PORT is 29500 unless env sets it");
}

TEST(ConvertRunPolicy, SuspendedJobOfKueueStartsByItsLabel) {
  const std::string job = KubeflowJob("TFJob", RoleOf("Worker"), "runPolicy: {suspend: true}");
  std::string queued = job;
  queued.replace(queued.find("{name: j}"), 9, "{name: j, labels: {kueue.x-k8s.io/queue-name: q}}");
  const Conversion conversion = ConvertText(queued);
  EXPECT_FALSE(conversion.job["spec"]["runPolicy"].contains("suspend"));
  ExpectNote(conversion,
             "spec.runPolicy.suspend: not kept: Kueue removed suspend when it admitted the job");
  EXPECT_EQ(ConvertText(job).job["spec"]["runPolicy"]["suspend"], true);
}

TEST(ConvertTfJob, SchedulerOfGangsIsNotKeptAndOthersAreToldOf) {
  const auto convert = [](const std::string& scheduler) {
    return ConvertWorker("TFJob", kAnyCommand, "schedulerName: " + scheduler);
  };
  const std::string field = "spec.tfReplicaSpecs.Worker.template.spec.schedulerName: ";
  const auto has_scheduler = [](const Conversion& conversion) {
    return FirstRole(conversion)["template"]["spec"].contains("schedulerName");
  };
  for (const char* const name : {"volcano", "kai-scheduler"}) {
    const Conversion conversion = convert(name);
    EXPECT_FALSE(has_scheduler(conversion)) << name;
    ExpectNote(conversion,
               field + name + " is not kept: Lockstep itself places all pods of the gang or none");
  }
  EXPECT_TRUE(has_scheduler(convert("mine")));
  ExpectNote(convert("mine"), field + "kept: mine binds each pod to the node");
  ExpectNoNote(convert("default-scheduler"), "schedulerName");
}

// They were refused as an unknown field.
TEST(ConvertTfJob, ResourcesOfThePodAsAWholeAreKept) {
  const Conversion conversion =
      ConvertWorker("TFJob", kAnyCommand, "resources: {limits: {cpu: 1.5, memory: 4Gi}}");
  const Json resources = FirstRole(conversion)["template"]["spec"]["resources"];
  EXPECT_EQ(resources["limits"]["cpu"], "1.5");
  EXPECT_EQ(resources["limits"]["memory"], "4Gi");
}

TEST(ConvertPyTorchJob, ProcessesThatAreNoTextAreRefusedAndNotCalledMissing) {
  const Conversion conversion = ConvertText(
      KubeflowJob("PyTorchJob", Replica("Worker", "command: [torchrun, t.py]"), "nprocPerNode: 4"));
  EXPECT_EQ(ErrorsOf(conversion), "spec.nprocPerNode: 4 found, expected a string\n");
  ExpectNoNote(conversion, "nprocPerNode: not set, which meant");
}

TEST(ConvertPyTorchJob, NoPodsAreReportedWhereTheRolesAre) {
  const std::string text = KubeflowJob("PyTorchJob", RoleOf("Worker", "replicas: 0"));
  EXPECT_EQ(ForeignField(ConvertAny(text), "spec.roles"), "spec.pytorchReplicaSpecs");
}

// Its GPUs are counted before the decoder has seen it.
TEST(ConvertPyTorchJob, ResourcesOfAnotherTypeAreLeftToTheDecoder) {
  for (const char* const resources : {"5", "null", "{limits: 5}", "{limits: null}"}) {
    const std::string container = "command: [a], resources: " + std::string(resources);
    EXPECT_EQ(ErrorsOf(ConvertAny(KubeflowJob("PyTorchJob", Replica("Worker", container)))), "");
  }
}

}  // namespace
}  // namespace lockstep::control
