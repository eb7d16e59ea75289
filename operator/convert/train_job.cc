#include <algorithm>
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

// The fields that a patch of the training pods may have.
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
  if (const Json* const containers = spec.Take("containers");
      containers != nullptr && containers->is_array()) {
    for (std::size_t i = 0; i < containers->size(); ++i) {
      ForeignObject container(&(*containers)[i],
                              spec.PathOf("containers") + "[" + std::to_string(i) + "]",
                              patch.conversion());
      if (container.TakeText("name").value_or("") == kTrainerJob) {
        for (const std::string& key : container.Rest()) {
          container.Copy(key, &pod->container());
          pod->origins.push_back({kContainerInRole + ("." + key), container.PathOf(key)});
        }
      } else {
        container.Note("name", "not kept: a container of the runtime, which is not in this file");
      }
    }
  }
  for (const std::string& key : spec.Rest()) {
    spec.Copy(key, &pod->spec);
    pod->origins.push_back({"template.spec." + key, spec.PathOf(key)});
  }
  patch.Finish();
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
    NoteMachineCount(command,
                     role->at("replicas").get<int64_t>(),
                     pod->container_path + ".command",
                     trainer->conversion());
    return;
  }
  const int64_t slots = ProcessCountOf(per_pod);
  if (slots == 0 && !per_pod.empty()) {
    trainer->Note("numProcPerNode",
                  "not kept: \"" + per_pod +
                      "\" found, expected a number of slots; set the role's "
                      "processes for more than one");
  }
  (*role)["processes"] = std::max<int64_t>(slots, 1);
  pod->origins.push_back({"processes", field});
  NoteMpiLaunch(command,
                role->at("processes").get<int64_t>() * role->at("replicas").get<int64_t>(),
                pod->container_path + ".command",
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
  Json role = {{"name", "worker"},
               {"replicas", trainer.TakeCount("numNodes").value_or(1)},
               {"restartPolicy", "OnFailure"}};
  const LaunchCommand command = ConvertProgram(&pod, options, conversion);
  SetProcesses(command, &trainer, &pod, &role);
  pod.origins.push_back({"replicas", trainer.PathOf("numNodes")});
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
