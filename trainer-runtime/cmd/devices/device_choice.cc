#include "trainer-runtime/cmd/devices/device_choice.h"

#include <algorithm>
#include <optional>

namespace lockstep::runtime {
namespace {

constexpr const char* kField = "spec.training.devices";

// "1 GPU", "2 GPUs".
std::string CountText(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " GPU" : " GPUs");
}

std::string VisibleText(const std::vector<GpuDevice>& visible) {
  std::string text = visible.empty() ? "none visible" : std::to_string(visible.size()) + " visible";
  for (std::size_t i = 0; i < visible.size(); ++i) {
    text += (i == 0 ? ": " : ", ") + visible[i].uuid;
  }
  return text;
}

std::optional<std::size_t> Find(const std::string& name, const std::vector<GpuDevice>& visible) {
  const bool is_index = name.find_first_not_of("0123456789") == std::string::npos;
  for (std::size_t i = 0; i < visible.size(); ++i) {
    if (is_index ? std::to_string(i) == name : visible[i].uuid == name) {
      return i;
    }
  }
  return std::nullopt;
}

Error ChoiceError(const std::string& why) {
  return Error(ErrorCode::kInvalidArgument, why).WithField(kField);
}

}  // namespace

Result<std::vector<std::size_t>> PickDevices(const std::vector<std::string>& asked,
                                             const std::vector<GpuDevice>& visible) {
  std::vector<std::size_t> picked;
  std::string missing;
  for (const std::string& name : asked) {
    const std::optional<std::size_t> found = Find(name, visible);
    if (!found.has_value()) {
      missing += (missing.empty() ? "" : ", ") + name;
      continue;
    }
    if (std::find(picked.begin(), picked.end(), *found) != picked.end()) {
      return ChoiceError(name + " found, but " + visible[*found].uuid + " is already in the list");
    }
    picked.push_back(*found);
  }
  if (!missing.empty()) {
    return ChoiceError(missing + " not found: " + CountText(asked.size()) + " requested, " +
                       VisibleText(visible));
  }
  return picked;
}

Result<TrainingSpec> CheckDevices(TrainingSpec spec, const std::vector<GpuDevice>& visible) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::size_t> picked,
                            PickDevices(spec.devices, visible));
  if (!picked.empty()) {
    spec.replicas = static_cast<int64_t>(picked.size());
  }
  for (std::size_t i = 0; i < picked.size(); ++i) {
    spec.devices[i] = visible[picked[i]].uuid;
  }
  return spec;
}

}  // namespace lockstep::runtime
