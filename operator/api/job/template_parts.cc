#include "operator/api/job/template_parts.h"

#include <algorithm>
#include <string_view>

#include "operator/api/fields/json_edit.h"

namespace lockstep::control {
namespace {

// Kubernetes' own resources have no domain, or one that is Kubernetes'; others are devices.
bool IsDeviceName(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) {
    return false;
  }
  const std::string_view domain = name.substr(0, slash);
  return domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io");
}

// A quantity of devices is a whole number, in quotes or not.
bool IsNothing(const Json& amount) {
  return amount == 0 || amount == "0";
}

bool ContainerAsksForDevice(const Json& container) {
  const Json* const resources = FindField(container, "resources");
  if (resources == nullptr) {
    return false;
  }
  for (const char* const kind : {"limits", "requests"}) {
    const Json* const amounts = FindField(*resources, kind);
    if (amounts == nullptr || !amounts->is_object()) {
      continue;
    }
    for (const auto& [name, amount] : amounts->items()) {
      if (IsDeviceName(name) && !IsNothing(amount)) {
        return true;
      }
    }
  }
  const Json* const claims = FindField(*resources, "claims");
  return claims != nullptr && claims->is_array() && !claims->empty();
}

}  // namespace

const Json& PodSpecOf(const PodTemplate& pod) {
  return ObjectOr(*pod.raw, "spec");
}

const Json* FindTrainer(const Json& pod_spec) {
  const Json* const containers = FindField(pod_spec, "containers");
  if (containers == nullptr || !containers->is_array() || containers->empty()) {
    return nullptr;
  }
  const auto named = std::find_if(containers->begin(), containers->end(), [](const Json& one) {
    const Json* const name = FindField(one, "name");
    return name != nullptr && *name == kTrainerContainer;
  });
  return named == containers->end() ? &containers->front() : &*named;
}

bool IsWithinFolder(const std::string& path, std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') {
    folder.pop_back();
  }
  return folder == "/" || path == folder || path.starts_with(folder + "/");
}

bool HasMountFor(const Json& container, const std::string& path) {
  const Json* const mounts = FindField(container, "volumeMounts");
  return mounts != nullptr && mounts->is_array() &&
         std::any_of(mounts->begin(), mounts->end(), [&](const Json& mount) {
           const Json* const at = FindField(mount, "mountPath");
           return at != nullptr && at->is_string() && IsWithinFolder(path, at->get<std::string>());
         });
}

bool AsksForDevice(const Json& pod_spec) {
  for (const char* const kind : {"initContainers", "containers"}) {
    const Json* const containers = FindField(pod_spec, kind);
    if (containers != nullptr && containers->is_array() &&
        std::any_of(containers->begin(), containers->end(), ContainerAsksForDevice)) {
      return true;
    }
  }
  return false;
}

}  // namespace lockstep::control
