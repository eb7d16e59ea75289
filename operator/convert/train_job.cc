#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "operator/convert/kubeflow_job.h"
#include "operator/convert/mpi_launch.h"
#include "operator/convert/pod_conversion.h"
#include "operator/convert/torch_processes.h"

namespace lockstep::control {
namespace {

constexpr const char* kTrainerJob = "node";  // the replicated job of a runtime that trains
constexpr const char* kNotInTheJob = "not kept: it belongs to a step that the runtime runs before";

void Merge(const Json& from, const char* key, Json* to) {
  for (const auto& [name, value] : from.items()) {
    (*to)[key][name] = value;
  }
}

constexpr const char* kOfTheRuntime =
    "not kept: a container of the runtime, which is not in this file";

// The variables of `added`, which stands at `path`, go to those of the container, over those of the
// same name.
void AddVariables(const Json& added, const std::string& path, ConvertedPod* pod) {
  Json variables = pod->container().value("env", Json::array());
  for (std::size_t i = 0; added.is_array() && variables.is_array() && i < added.size(); ++i) {
    const Json& one = added[i];
    const Json name = one.is_object() ? one.value("name", Json()) : Json();
    const auto same = std::find_if(variables.begin(), variables.end(), [&](const Json& other) {
      return other.is_object() && other.value("name", Json()) == name;
    });
    const auto index = same - variables.begin();
    if (same != variables.end()) {
      *same = one;
    } else {
      variables.push_back(one);
    }
    pod->origins.push_back({kContainerInRole + (".env[" + std::to_string(index) + "]"),
                            path + "[" + std::to_string(i) + "]"});
  }
  pod->container()["env"] = std::move(variables);
}

// A patch of a pod's containers: those that are not the trainer's are only in the runtime.
void ApplyContainerPatches(const char* key, ForeignObject* spec, ConvertedPod* pod) {
  const Json* const containers = spec->Take(key);
  for (std::size_t i = 0; containers != nullptr && containers->is_array() && i < containers->size();
       ++i) {
    ForeignObject container(
        &(*containers)[i], spec->PathOf(key) + "[" + std::to_string(i) + "]", spec->conversion());
    if (container.TakeText("name").value_or("") != kTrainerJob) {
      container.Note("name", kOfTheRuntime);
      continue;
    }
    if (const Json* const variables = container.Take("env")) {
      AddVariables(*variables, container.PathOf("env"), pod);
    }
    for (const std::string& field : container.Rest()) {
      container.Copy(field, &pod->container());
      pod->origins.push_back({kContainerInRole + ("." + field), container.PathOf(field)});
    }
  }
}

// The fields that a patch of the training pods may have.
void ApplyPodSpecPatch(ForeignObject* spec, ConvertedPod* pod) {
  ApplyContainerPatches("containers", spec, pod);
  ApplyContainerPatches("initContainers", spec, pod);
  for (const std::string& key : spec->Rest()) {
    spec->Copy(key, &pod->spec);
    pod->origins.push_back({"template.spec." + key, spec->PathOf(key)});
  }
}

void ApplyPodPatch(ForeignObject patch, ConvertedPod* pod) {
  ForeignObject metadata = patch.TakeObject("metadata");
  for (const char* const key : {"labels", "annotations"}) {
    if (const Json* const values = metadata.Take(key); values != nullptr && values->is_object()) {
      Merge(*values, key, &pod->metadata);
      pod->origins.push_back({std::string("template.metadata.") + key, metadata.PathOf(key)});
    }
  }
  metadata.Finish();
  ForeignObject spec = patch.TakeObject("spec");
  ApplyPodSpecPatch(&spec, pod);
  patch.Finish();
}

// Whether what older versions say beside the runtime is said of the pods that train.
bool IsOfTrainer(ForeignObject* override_of_pods) {
  const Json* const targets = override_of_pods->Take("targetJobs");
  return targets == nullptr || !targets->is_array() ||
         std::any_of(targets->begin(), targets->end(), [](const Json& target) {
           return target.is_object() && target.value("name", Json()) == kTrainerJob;
         });
}

// podSpecOverrides of v1alpha1, whose fields are a pod's, and podTemplateOverrides, which took its
// place: {metadata, spec}.
void ApplyOverrides(ForeignObject* spec, ConvertedPod* pod) {
  for (const char* const key : {"podSpecOverrides", "podTemplateOverrides"}) {
    const Json* const all = spec->Take(key);
    for (std::size_t i = 0; all != nullptr && all->is_array() && i < all->size(); ++i) {
      ForeignObject one(
          &(*all)[i], spec->PathOf(key) + "[" + std::to_string(i) + "]", spec->conversion());
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
  ForeignObject job_set = patch.TakeObject("trainingRuntimeSpec").TakeObject("template");
  job_set.Drop("metadata", "not kept: there is no JobSet; what is said of the pods is");
  ForeignObject spec = job_set.TakeObject("spec");
  const Json* const jobs = spec.Take("replicatedJobs");
  for (std::size_t i = 0; jobs != nullptr && jobs->is_array() && i < jobs->size(); ++i) {
    ForeignObject job(&(*jobs)[i],
                      spec.PathOf("replicatedJobs") + "[" + std::to_string(i) + "]",
                      patch.conversion());
    if (job.TakeText("name").value_or("") != kTrainerJob) {
      job.Note("name", kNotInTheJob);
      continue;
    }
    ForeignObject batch_job = job.TakeObject("template");
    batch_job.Drop("metadata", "not kept: the pods have no Job around them");
    ForeignObject batch_spec = batch_job.TakeObject("spec");
    ApplyPodPatch(batch_spec.TakeObject("template"), pod);
    batch_spec.Finish();
    batch_job.Finish();
    job.Finish();
  }
  spec.Finish();
  job_set.Finish();
  patch.Finish();
}

ConvertedPod PodOf(ForeignObject* trainer) {
  ConvertedPod pod;
  pod.spec["containers"] = Json::array({Json{{"name", "trainer"}}});
  pod.container_path = trainer->PathOf("");
  pod.container_path.pop_back();  // "spec.trainer": its fields are the container's
  Json& container = pod.container();
  for (const char* const key : {"image", "command", "args", "env"}) {
    trainer->Copy(key, &container);
  }
  trainer->CopyAs("resourcesPerNode", "resources", &container);
  pod.origins.push_back(
      {std::string(kContainerInRole) + ".resources", trainer->PathOf("resourcesPerNode")});
  CleanContainer(&pod, trainer->conversion());
  return pod;
}

void NoteRuntime(ForeignObject runtime) {
  const std::string name = runtime.TakeText("name").value_or("");
  for (const char* const key : {"apiGroup", "kind"}) {
    runtime.Take(key);
  }
  runtime.Note("name",
               "what the runtime " + name +
                   " adds to the pods (image, volumes, init steps) is not in this file and not in "
                   "the job");
  runtime.Finish();
}

// As many as torchrun starts in a pod, or as mpirun has slots there.
void SetProcesses(const LaunchCommand& command,
                  ForeignObject* trainer,
                  ConvertedPod* pod,
                  Json* role) {
  const std::string field = trainer->PathOf("numProcPerNode");
  const Json* const value = trainer->Take("numProcPerNode");  // a text, in older versions
  const std::string per_pod = value == nullptr     ? ""
                              : value->is_string() ? value->get<std::string>()
                                                   : DumpJson(*value);
  if (!IsMpiLaunch(command)) {
    SetTorchProcesses(command, per_pod, field, pod, role, trainer->conversion());
    NoteRankCount(command, RanksOf(*role, *pod), *pod, trainer->conversion());
    const int64_t pods = role->at("replicas").get<int64_t>();
    NoteMachineCount(command, *pod, pods, trainer->conversion());
    NoteOuterCount(command, pods, 1, trainer->conversion());
    return;
  }
  MpiSlots slots{std::nullopt, field};
  if (const int64_t count = ProcessCountOf(per_pod); count > 0) {
    slots.count = count;
  } else if (!per_pod.empty()) {
    trainer->Note("numProcPerNode",
                  "not kept: \"" + per_pod +
                      "\" found, expected a number of slots; set the role's "
                      "processes for more than one");
  }
  SetMpiProcesses(command, &slots, pod, role, trainer->conversion());
  const int64_t processes = role->at("processes").get<int64_t>();
  NoteMpiLaunch(command,
                processes * role->at("replicas").get<int64_t>(),
                processes,
                true,
                trainer->conversion());
}

}  // namespace

Json ConvertTrainJob(ForeignObject* spec, const ConversionOptions& options) {
  Conversion* const conversion = spec->conversion();
  NoteRuntime(spec->TakeObject("runtimeRef"));
  ForeignObject trainer = spec->TakeObject("trainer");
  ConvertedPod pod = PodOf(&trainer);
  const Json* const patches = spec->Take("runtimePatches");
  for (std::size_t i = 0; patches != nullptr && patches->is_array() && i < patches->size(); ++i) {
    ApplyRuntimePatch(ForeignObject(&(*patches)[i],
                                    spec->PathOf("runtimePatches") + "[" + std::to_string(i) + "]",
                                    conversion),
                      &pod);
  }
  ApplyOverrides(spec, &pod);
  Json role = {{"name", "worker"},
               {"replicas", trainer.TakeCount("numNodes").value_or(1)},
               {"restartPolicy", "OnFailure"}};
  const LaunchCommand command = ConvertProgram(&pod, TorchrunIsTold::kByOperator, options, conversion);
  SetProcesses(command, &trainer, &pod, &role);
  pod.origins.push_back({"replicas", trainer.PathOf("numNodes")});
  conversion->origins.push_back({"spec.roles", trainer.PathOf("numNodes")});
  NoteOriginsOfRole(0, pod.container_path, pod, conversion);
  role["template"] = pod.ToTemplate();
  trainer.Finish();
  spec->Drop("initializer",
             "not kept: nothing fetches the data set or the model first; use an init container");
  Json run_policy = Json::object();
  for (const char* const key : {"suspend", "activeDeadlineSeconds", "managedBy"}) {
    spec->NoteOrigin(key, std::string("spec.runPolicy.") + key);
  }
  spec->Copy("suspend", &run_policy);
  spec->Copy("activeDeadlineSeconds", &run_policy);
  if (const auto managed_by = spec->TakeText("managedBy"); managed_by.has_value()) {
    if (*managed_by == "trainer.kubeflow.org/trainjob-controller") {
      spec->Note("managedBy", "not kept: Lockstep's operator looks after the job");
    } else {
      run_policy["managedBy"] = *managed_by;
    }
  }
  for (const char* const key : {"labels", "annotations"}) {
    spec->Drop(key, "not kept: pods take the labels of their template");
  }
  return Json{{"strategy", IsMpiLaunch(command) ? "Horovod" : "MultiWorkerMirrored"},
              {"successPolicy", "AllWorkers"},
              {"roles", Json::array({std::move(role)})},
              {"runPolicy", std::move(run_policy)}};
}

}  // namespace lockstep::control
