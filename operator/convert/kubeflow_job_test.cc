#include "operator/convert/kubeflow_job.h"

#include <gtest/gtest.h>

#include "operator/convert/conversion.h"
#include "operator/convert/testing/converted.h"

namespace lockstep::control {
namespace {

// A job of kind `kind` with these lines in its spec and under its replicas.
std::string KubeflowJob(const std::string& kind,
                        const std::string& spec,
                        const std::string& replicas) {
  const std::string key = kind == "TFJob" ? "tfReplicaSpecs" : "pytorchReplicaSpecs";
  return "apiVersion: kubeflow.org/v1\nkind: " + kind + "\nmetadata: {name: j}\nspec:\n" + spec +
         "  " + key + ":\n" + replicas;
}

constexpr const char* kTensorflowPod =
    "template: {spec: {containers: [{name: tensorflow, image: i, command: [a]}]}}}\n";

std::string Role(const std::string& type, const std::string& more = "") {
  return "    " + type + ": {" + more + kTensorflowPod;
}

void ExpectNoNote(const Conversion& conversion, const std::string& note) {
  const std::string notes = NotesOf(conversion);
  EXPECT_EQ(notes.find(note), std::string::npos) << notes;
}

TEST(ConvertRunPolicy, TimeoutThatTriedAgainDoesNotFailTheJob) {
  const Conversion conversion = ConvertText(
      KubeflowJob("TFJob",
                  "  runPolicy: {schedulingPolicy: {scheduleTimeoutSeconds: 60, queue: q}}\n",
                  Role("Worker")));
  EXPECT_EQ(conversion.job["spec"]["scheduling"], Json({{"queue", "q"}}));
  ExpectNote(conversion,
             "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds: not kept: a gang");
}

TEST(ConvertRunPolicy, PodsThatWorkedOnAfterTheSuccessAreToldOf) {
  const std::string note = "spec.runPolicy.cleanPodPolicy: None, their default, let workers";
  ExpectNote(ConvertText(KubeflowJob("TFJob", "", Role("Chief") + Role("Worker"))), note);
  ExpectNote(ConvertText(KubeflowJob("TFJob", "", Role("Worker") + Role("Evaluator"))), note);
  for (const std::string& job :
       {KubeflowJob("TFJob", "", Role("Worker", "replicas: 2, ")),
        KubeflowJob("TFJob", "  successPolicy: AllWorkers\n", Role("Chief") + Role("Worker")),
        KubeflowJob(
            "TFJob", "  runPolicy: {cleanPodPolicy: All}\n", Role("Chief") + Role("Worker"))}) {
    ExpectNoNote(ConvertText(job), "worked on");
    ExpectNoNote(ConvertText(job), note);
  }
}

TEST(NoteExitCodes, CodesThatAreHandledOtherwiseAreNamed) {
  const std::string role = "restartPolicy: ExitCode, ";
  for (const char* const kind : {"TFJob", "PyTorchJob"}) {
    ExpectNote(ConvertText(KubeflowJob(kind, "", Role("Worker", role))),
               "Worker.restartPolicy: kept, with other codes: Kubeflow tried 128 to 255 again");
    ExpectNoNote(ConvertText(KubeflowJob(kind, "", Role("Worker"))), "other codes");
  }
}

TEST(ConvertTfJob, MasterIsAChiefForTfConfig) {
  ExpectNote(ConvertText(KubeflowJob("TFJob", "", Role("Master"))),
             "spec.tfReplicaSpecs.Master: kept as chief: TF_CONFIG calls it so");
  ExpectNoNote(ConvertText(KubeflowJob("TFJob", "", Role("Chief"))), "TF_CONFIG calls");
}

TEST(ConvertPyTorchJob, PodThatSeesNoGpuIsToldOf) {
  const auto pod = [](const std::string& command, const std::string& limits) {
    return KubeflowJob(
        "PyTorchJob",
        "",
        "    Worker: {template: {spec: {runtimeClassName: nvidia, containers: [{name: "
        "pytorch, image: i, command: [" +
            command + "], ports: [{name: pytorchjob-port, containerPort: 1234}], " +
            "resources: {limits: {" + limits + "}}}]}}}\n");
  };
  const std::string note =
      "containers[0].resources: no GPU is asked for, so the pod sees none, whatever "
      "runtimeClassName nvidia showed it";
  ExpectNote(ConvertText(pod("python, t.py", "cpu: 1")), note);
  ExpectNoNote(ConvertText(pod("python, t.py", "nvidia.com/gpu: 1")), note);
  ExpectNote(ConvertText(pod("torchrun, --nproc-per-node=gpu, t.py", "cpu: 1")),
             "command: \"gpu\" found where no GPU is asked for: Lockstep shows such a pod no GPU");
  ExpectNote(ConvertText(pod("python, t.py", "cpu: 1")),
             "containers[0].ports[0]: was MASTER_PORT, which is 29500 here unless env sets it");
}

TEST(ConvertRunPolicy, SuspendedJobOfKueueStartsByItsLabel) {
  const std::string job = KubeflowJob("TFJob", "  runPolicy: {suspend: true}\n", Role("Worker"));
  std::string queued = job;
  queued.replace(queued.find("{name: j}"), 9, "{name: j, labels: {kueue.x-k8s.io/queue-name: q}}");
  const Conversion conversion = ConvertText(queued);
  EXPECT_FALSE(conversion.job["spec"]["runPolicy"].contains("suspend"));
  ExpectNote(conversion,
             "spec.runPolicy.suspend: not kept: Kueue removed it when it admitted the job");
  EXPECT_EQ(ConvertText(job).job["spec"]["runPolicy"]["suspend"], true);
}

TEST(ConvertTfJob, SchedulerOfGangsIsNotKeptAndOthersAreToldOf) {
  const auto convert = [](const std::string& scheduler) {
    return ConvertText(KubeflowJob("TFJob",
                                   "",
                                   "    Worker: {template: {spec: {schedulerName: " + scheduler +
                                       ", containers: [{name: tensorflow, image: i, command: "
                                       "[a]}]}}}\n"));
  };
  const std::string field = "spec.tfReplicaSpecs.Worker.template.spec.schedulerName: ";
  const auto has_scheduler = [](const Conversion& conversion) {
    return FirstRole(conversion)["template"]["spec"].contains("schedulerName");
  };
  for (const char* const name : {"volcano", "kai-scheduler"}) {
    const Conversion conversion = convert(name);
    EXPECT_FALSE(has_scheduler(conversion)) << name;
    ExpectNote(conversion, field + name + " is not kept: Lockstep itself places the gang");
  }
  EXPECT_TRUE(has_scheduler(convert("mine")));
  ExpectNote(convert("mine"), field + "kept: mine binds each pod to the node");
  ExpectNoNote(convert("default-scheduler"), "schedulerName");
}

// P9 of the third review: they were refused as an unknown field.
TEST(ConvertTfJob, ResourcesOfThePodAsAWholeAreKept) {
  const Conversion conversion = ConvertText(
      KubeflowJob("TFJob",
                  "",
                  "    Worker: {template: {spec: {resources: {limits: {cpu: 1.5, memory: 4Gi}}, "
                  "containers: [{name: tensorflow, image: i, command: [a]}]}}}\n"));
  const Json resources = FirstRole(conversion)["template"]["spec"]["resources"];
  EXPECT_EQ(resources["limits"]["cpu"], "1.5");
  EXPECT_EQ(resources["limits"]["memory"], "4Gi");
}

TEST(ConvertTfJob, SidecarIsStartedAgain) {
  ExpectNote(ConvertText(KubeflowJob(
                 "TFJob",
                 "",
                 "    Worker: {template: {spec: {containers: [{name: tensorflow, image: i, "
                 "command: [a]}, {name: b, image: i}]}}}\n")),
             "it starts before the trainer, is started again where it ends, with success too");
}

}  // namespace
}  // namespace lockstep::control
