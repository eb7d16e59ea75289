#include "operator/view/reported_devices.h"

#include "operator/api/status/conditions.h"

namespace lockstep::control {

void ReportedDevices::Add(const JobId& job, const TrainingJobStatus& status) {
  if (HasEnded(status)) {
    return;
  }
  for (const PodPlacement& placement : status.placement) {
    if (!placement.devices.empty()) {
      jobs_by_node_[placement.node][job].insert(placement.devices.begin(), placement.devices.end());
    }
  }
}

void ReportedDevices::Remove(const JobId& job, const TrainingJobStatus& status) {
  for (const PodPlacement& placement : status.placement) {
    const auto node = jobs_by_node_.find(placement.node);
    if (node == jobs_by_node_.end()) {
      continue;
    }
    node->second.erase(job);
    if (node->second.empty()) {
      jobs_by_node_.erase(node);
    }
  }
}

std::map<std::string, std::set<std::string>> ReportedDevices::OfOthers(
    const JobId& job, const TrainingJobStatus& status) const {
  std::map<std::string, std::set<std::string>> devices;
  for (const PodPlacement& placement : status.placement) {
    const auto node = jobs_by_node_.find(placement.node);
    if (node == jobs_by_node_.end() || devices.count(placement.node) > 0) {
      continue;
    }
    for (const auto& [other, seen] : node->second) {
      if (!(other == job)) {
        devices[placement.node].insert(seen.begin(), seen.end());
      }
    }
  }
  return devices;
}

}  // namespace lockstep::control
