#include "operator/reconcile/pods/lasting_checkpoints.h"

#include "operator/api/fields/json_edit.h"
#include "operator/api/job/template_parts.h"
#include "operator/reconcile/pods/pod.h"

namespace lockstep::control {
namespace {

bool HasName(const Json& object, const std::string& name) {
  const Json* const value = FindField(object, "name");
  return value != nullptr && *value == name;
}

// The element of that name; null when there is none.
const Json* FindListed(const Json& spec, const char* list, const std::string& name) {
  const Json* const elements = FindField(spec, list);
  if (elements == nullptr || !elements->is_array()) {
    return nullptr;
  }
  for (const Json& element : *elements) {
    if (HasName(element, name)) {
      return &element;
    }
  }
  return nullptr;
}

// The volume of the innermost mount that holds `path`; empty when there is none.
std::string VolumeAt(const Json& container, const std::string& path) {
  const Json* const mounts = FindField(container, "volumeMounts");
  std::string volume;
  std::size_t depth = 0;
  if (mounts == nullptr || !mounts->is_array()) {
    return volume;
  }
  for (const Json& mount : *mounts) {
    const Json* const at = FindField(mount, "mountPath");
    const Json* const name = FindField(mount, "name");
    if (at == nullptr || !at->is_string() || name == nullptr || !name->is_string()) {
      continue;
    }
    const auto& folder = at->get_ref<const std::string&>();
    if (IsWithinFolder(path, folder) && folder.size() >= depth) {
      depth = folder.size();
      volume = name->get<std::string>();
    }
  }
  return volume;
}

}  // namespace

std::string WhyCheckpointsGo(const TrainingJob& job, const Observed& observed) {
  const RoleSpec* role = job.FindRole(Role::kChief);
  role = role == nullptr ? job.FindRole(Role::kWorker) : role;
  if (!job.spec.training.has_value() || observed.is_one_machine || role == nullptr) {
    return "";
  }
  const std::string path = CheckpointDirectory(job, observed.settings);
  const Json* const spec = FindField(*role->pod.raw, "spec");
  const Json* const container =
      spec == nullptr ? nullptr : FindListed(*spec, "containers", role->pod.trainer_name);
  const std::string name = container == nullptr ? "" : VolumeAt(*container, path);
  if (name.empty()) {
    return "no volume is mounted at " + path;
  }
  const Json* const volume = FindListed(*spec, "volumes", name);
  if (volume != nullptr && FindField(*volume, "emptyDir") != nullptr) {
    return "the volume " + name + " at " + path + " is an emptyDir";
  }
  return "";
}

std::string CostOfNewGang(const TrainingJob& job, const Observed& observed) {
  const std::string why = WhyCheckpointsGo(job, observed);
  return why.empty() ? ""
                     : ". Training then begins at step 0: " + why +
                           ", so checkpoints are deleted with their pods";
}

}  // namespace lockstep::control
