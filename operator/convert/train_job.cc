#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/quantity.h"
#include "operator/convert/kubeflow_job.h"
#include "operator/convert/mpi_launch.h"
#include "operator/convert/pod_conversion.h"
#include "operator/convert/pod_patch.h"
#include "operator/convert/torch_processes.h"
#include "operator/convert/train_runtime.h"

namespace lockstep::control {
namespace {

constexpr const char* kTrainerJob = "node";  // the replicated job of a runtime that trains
constexpr const char* kNotInTheJob =
    "not kept: only patches of the replicated job \"node\" are used, because its pods train";

constexpr const char* kOfOthers = "not kept: only the container node of the runtime can be patched";

void ApplyContainerPatches(const char* key, ForeignObject* spec, ConvertedPod* pod) {
  for (ForeignObject& container : spec->TakeObjects(key)) {
    const bool is_trainer = key == std::string_view("containers") &&
                            container.TakeText("name").value_or("") == kTrainerJob;
    if (is_trainer) {
      ApplyPatch(&container, kContainerInRole, &pod->container(), pod);
    } else if (container) {
      container.Note("name", kOfOthers);
    }
  }
}

// The fields that a patch of the training pods may have.
void ApplyPodSpecPatch(ForeignObject* spec, ConvertedPod* pod) {
  ApplyContainerPatches("containers", spec, pod);
  ApplyContainerPatches("initContainers", spec, pod);
  ApplyPatch(spec, "template.spec", &pod->spec, pod);
}

void ApplyPodPatch(ForeignObject patch, ConvertedPod* pod) {
  ForeignObject metadata = patch.TakeObject("metadata");
  for (const std::string& key : metadata.Rest()) {
    if (key != "labels" && key != "annotations") {
      metadata.Drop(key, "not kept: a TrainingJob has no such field");
    }
  }
  ApplyPatch(&metadata, "template.metadata", &pod->metadata, pod);
  ForeignObject spec = patch.TakeObject("spec");
  ApplyPodSpecPatch(&spec, pod);
  patch.Finish();
}

// Whether what older versions say beside the runtime is said of the pods that train.
bool IsOfTrainer(ForeignObject* override_of_pods) {
  if (override_of_pods->Take("targetJobs") == nullptr) {
    return true;
  }
  std::vector<ForeignObject> targets = override_of_pods->TakeObjects("targetJobs");
  return std::any_of(targets.begin(), targets.end(), [](ForeignObject& target) {
    return target.TakeText("name").value_or("") == kTrainerJob;
  });
}

// podSpecOverrides of v1alpha1, whose fields are a pod's, and podTemplateOverrides, which took its
// place: {metadata, spec}.
void ApplyOverrides(ForeignObject* spec, ConvertedPod* pod) {
  for (const char* const key : {"podSpecOverrides", "podTemplateOverrides"}) {
    for (ForeignObject& one : spec->TakeObjects(key)) {
      if (!IsOfTrainer(&one)) {
        one.Note("targetJobs", kNotInTheJob);
      } else if (key == std::string_view("podSpecOverrides")) {
        ApplyPodSpecPatch(&one, pod);
      } else {
        ApplyPodPatch(std::move(one), pod);
      }
    }
  }
}

void ApplyRuntimePatch(ForeignObject patch, ConvertedPod* pod) {
  patch.Take("manager");
  patch.Take("time");
  ForeignObject runtime = patch.TakeObject("trainingRuntimeSpec");
  ForeignObject job_set = runtime.TakeObject("template");
  job_set.Drop("metadata", "not kept: there is no JobSet; only fields of the pods are kept");
  ForeignObject spec = job_set.TakeObject("spec");
  for (ForeignObject& job : spec.TakeObjects("replicatedJobs")) {
    if (job.TakeText("name").value_or("") != kTrainerJob) {
      job.Note("name", kNotInTheJob);
      continue;
    }
    ForeignObject batch_job = job.TakeObject("template");
    batch_job.Drop("metadata", "not kept: the pods do not belong to a Job of batch/v1");
    ForeignObject batch_spec = batch_job.TakeObject("spec");
    ApplyPodPatch(batch_spec.TakeObject("template"), pod);
    batch_spec.Finish();
    batch_job.Finish();
    job.Finish();
  }
  spec.Finish();
  job_set.Finish();
  runtime.Finish();
  patch.Finish();
}

// The runtime's pod, with what the job says of its container.
ConvertedPod PodOfTrainer(ConvertedPod pod, ForeignObject* trainer) {
  std::string path = trainer->PathOf("");
  path.pop_back();  // "spec.trainer": its fields are the container's
  if (pod.container_path.empty()) {
    pod.container_path = path;
  }
  Json fields = Json::object();
  for (const char* const key : {"image", "command", "args", "env"}) {
    trainer->Copy(key, &fields);
  }
  ForeignObject patch(&fields, path, trainer->conversion());
  ApplyPatch(&patch, kContainerInRole, &pod.container(), &pod);
  if (const Json* const resources = trainer->Take("resourcesPerNode")) {
    pod.container()["resources"] = *resources;
    pod.origins.push_back(
        {std::string(kContainerInRole) + ".resources", trainer->PathOf("resourcesPerNode")});
  }
  CleanContainer(&pod, trainer->conversion());
  return pod;
}

// What the runtime's own launcher adds to the command is not here.
void RefuseOtherLaunchers(const TrainRuntime& runtime,
                          const LaunchCommand& command,
                          ForeignObject* spec) {
  if (!command.problem.empty()) {
    return;
  }
  if (runtime.kind == "flux") {
    spec->Fail("runtimeRef.name",
               "a Flux runtime found, expected a torch runtime: Flux starts the ranks itself");
  } else if (runtime.kind == "mpi" && !command.is_of_mpi()) {
    spec->Fail("runtimeRef.name",
               "an MPI runtime found, expected trainer.command to begin with mpirun");
  }
}

// Cores that the container asks for, as Kubeflow's operator counts them; 0: none.
int64_t CoreCountOf(const ConvertedPod& pod) {
  for (const char* const kind : {"requests", "limits"}) {
    const Json cores = MemberOf(MemberOf(pod.OfContainer("resources"), kind), "cpu");
    const Result<int64_t> count = ParseQuantity(TextOf(cores), QuantityUnit::kOnes);
    if (count.ok() && *count > 0) {
      return *count;
    }
  }
  return 0;
}

// What torchrun is told of processes where neither it nor the manifest says a number. Source: the
// plugin torch of kubeflow/trainer v2.3, for which a GPU is what has such a name.
std::string PerPodUnsaid(const ConvertedPod& pod, bool has_runtime, ForeignObject* trainer) {
  const auto devices = pod.devices();
  if (std::any_of(devices.begin(), devices.end(), [](const auto& device) {
        return device.first.find("gpu") != std::string::npos;
      })) {
    return "auto";
  }
  const int64_t cores = CoreCountOf(pod);
  if (cores == 0 && !has_runtime) {
    trainer->Note(
        "numProcPerNode",
        "not set, which meant one process for each GPU or core that the runtime requests: a "
        "TrainingJob starts one process; for more, set the role's processes");
  }
  return std::to_string(std::max<int64_t>(cores, 1));
}

// As many as torchrun starts in a pod, or as mpirun has slots there.
void SetTrainerProcesses(const TrainRuntime& runtime,
                         ForeignObject* trainer,
                         ConvertedReplica* replica) {
  Conversion* const conversion = trainer->conversion();
  const Json* const value = trainer->Take("numProcPerNode");  // a text, in older versions
  const bool is_of_runtime = value == nullptr && !runtime.per_pod.empty();
  const std::string field =
      is_of_runtime ? runtime.per_pod_field : trainer->PathOf("numProcPerNode");
  std::string per_pod = value == nullptr ? runtime.per_pod : TextOf(*value);
  if (!replica->command.is_of_mpi()) {
    const bool is_unsaid = per_pod.empty() || per_pod == "auto";
    if (is_unsaid) {
      const TorchProgram program = ReadTorchProgram(replica->command.program);
      per_pod = program.may_start_torchrun && program.count.empty()
                    ? PerPodUnsaid(replica->pod, runtime.is_known, trainer)
                    : "auto";
    }
    SetTorchProcesses({per_pod, field, !is_unsaid}, replica, conversion);
    return;
  }
  MpiSlots slots{std::nullopt, field};
  if (const int64_t count = ProcessCountOf(per_pod); count > 0) {
    slots.count = count;
  } else if (!per_pod.empty()) {
    conversion->notes.push_back(
        {field,
         "not kept: \"" + per_pod +
             "\" found, expected a number of slots; for more than one process, set the role's "
             "processes"});
  }
  SetMpiProcesses(&slots, replica, conversion);
  NoteMpiLaunches({replica, 1}, true, conversion);
}

}  // namespace

Json ConvertTrainJob(ForeignObject* spec, const ConversionOptions& options) {
  Conversion* const conversion = spec->conversion();
  TrainRuntime runtime = ReadTrainRuntime(spec->TakeObject("runtimeRef"), options);
  ForeignObject trainer = spec->TakeObject("trainer");
  ConvertedPod pod = PodOfTrainer(std::move(runtime.pod), &trainer);
  for (ForeignObject& patch : spec->TakeObjects("runtimePatches")) {
    ApplyRuntimePatch(std::move(patch), &pod);
  }
  ApplyOverrides(spec, &pod);
  ConvertedReplica replica{
      {{"name", "worker"},
       {"replicas", trainer.TakeCount("numNodes").value_or(runtime.nodes.value_or(1))},
       {"restartPolicy", "OnFailure"}},
      std::move(pod)};
  ConvertProgram(&replica, options, conversion);
  RefuseOtherLaunchers(runtime, replica.command, spec);
  SetTrainerProcesses(runtime, &trainer, &replica);
  replica.pod.origins.push_back({"replicas", trainer.PathOf("numNodes")});
  conversion->origins.push_back({"spec.roles", trainer.PathOf("numNodes")});
  NoteOriginsOfRole(0, replica.pod.container_path, replica.pod, conversion);
  replica.role["template"] = replica.pod.ToTemplate();
  trainer.Finish();
  spec->Drop("initializer",
             "not kept: Lockstep does not fetch the data set or the model; use an init container");
  Json run_policy = Json::object();
  for (const char* const key : {"suspend", "activeDeadlineSeconds", "managedBy"}) {
    spec->NoteOrigin(key, std::string("spec.runPolicy.") + key);
  }
  spec->Copy("suspend", &run_policy);
  spec->Copy("activeDeadlineSeconds", &run_policy);
  if (const auto managed_by = spec->TakeText("managedBy"); managed_by.has_value()) {
    if (*managed_by == "trainer.kubeflow.org/trainjob-controller") {
      spec->Note("managedBy", "not kept: Lockstep's operator manages the job");
    } else {
      run_policy["managedBy"] = *managed_by;
    }
  }
  for (const char* const key : {"labels", "annotations"}) {
    spec->Drop(key, "not kept: pods take labels and annotations from their template");
  }
  return Json{{"strategy", replica.command.is_of_mpi() ? "Horovod" : "MultiWorkerMirrored"},
              {"successPolicy", "AllWorkers"},
              {"roles", RolesOf({replica})},
              {"runPolicy", std::move(run_policy)}};
}

}  // namespace lockstep::control
