#include "operator/reconcile/failure/device_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/plural.h"
#include "common/contract/status/status_document.h"
#include "common/contract/text/text.h"
#include "operator/api/job/placement.h"

namespace lockstep::control {
namespace {

// The names of the GPUs that a pod has told, in order.
std::vector<std::string> DevicesIn(const StatusDocument& document) {
  std::vector<std::string> devices;
  for (const DeviceStatus& device : document.devices) {
    devices.push_back(CutText(device.uuid, kDeviceNameBytesMax));
  }
  std::sort(devices.begin(), devices.end());
  return devices;
}

// Takes over what pods tell. A pod whose work is done has given its GPUs back.
void NoteDevices(const GangView& view, DecisionBuilder* builder) {
  for (const Member& member : view.members) {
    PodPlacement* const placement = builder->PlacementOf(member.task);
    if (placement->is_completed) {
      placement->devices.clear();
    } else if (member.report != nullptr && !member.report->document.devices.empty()) {
      placement->devices = DevicesIn(member.report->document);
    }
  }
}

std::size_t WantedBy(const Member& member, const DecisionBuilder& builder) {
  const RoleSpec* const role = builder.job().FindRole(member.task.role);
  return role == nullptr ? 0 : static_cast<std::size_t>(role->gpus);
}

std::string CountOf(std::size_t count) {
  return Plural(static_cast<int64_t>(count), "GPU");
}

// The first thing that is wrong with the members' devices.
std::optional<ConditionChange> FindMismatch(const GangView& view, const DecisionBuilder& builder) {
  std::map<std::string, std::map<std::string, const Member*>> seen;  // by node and UUID
  for (const Member& member : view.members) {
    const std::vector<std::string>& devices = FindPlacement(builder.status(), member.task)->devices;
    const std::size_t wanted = WantedBy(member, builder);
    if (devices.empty()) {
      continue;
    }
    if (devices.size() != wanted) {
      return ConditionChange{ConditionType::kGpuAssignment,
                             false,
                             "AnotherNumber",
                             DescribeMember(member) + " sees " + CountOf(devices.size()) +
                                 ", but requests " + std::to_string(wanted)};
    }
    const auto elsewhere = builder.observed().devices_elsewhere.find(member.node);
    for (const std::string& device : devices) {
      const auto [first, is_first] = seen[member.node].emplace(device, &member);
      std::string other = is_first ? "" : DescribeMember(*first->second);
      if (elsewhere != builder.observed().devices_elsewhere.end() &&
          elsewhere->second.count(device) > 0) {
        other = "a pod of another job";
      }
      if (!other.empty()) {
        return ConditionChange{ConditionType::kGpuAssignment,
                               false,
                               "InTwoPods",
                               device + " of node " + member.node + " is seen by " +
                                   DescribeMember(member) + " and by " + other};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

bool RecordsDevices(const TrainingJobSpec& spec) {
  int64_t count = 0;
  for (const RoleSpec& role : spec.roles) {
    count += role.replicas * role.gpus;
  }
  return count <= kDevicesRecordedMax;
}

void CheckDevices(const GangView& view, DecisionBuilder* builder) {
  if (builder->observed().is_one_machine || view.members.empty()) {
    return;
  }
  if (!RecordsDevices(builder->spec())) {
    for (PodPlacement& placement : builder->mutable_placement()->placement) {
      placement.devices.clear();
    }
    builder->Set({ConditionType::kGpuAssignment,
                  false,
                  "TooManyToRecord",
                  "the job has more than " + CountOf(kDevicesRecordedMax) +
                      ", too many to list in the status, so Lockstep does not check whether "
                      "two pods see the same GPU"});
    return;
  }
  NoteDevices(view, builder);
  if (const auto mismatch = FindMismatch(view, *builder)) {
    builder->Set(*mismatch, EventType::kWarning);
    return;
  }
  bool has_any = false;
  for (const Member& member : view.members) {
    const PodPlacement& placement = *FindPlacement(builder->status(), member.task);
    if (WantedBy(member, *builder) > 0 && !placement.is_completed && placement.devices.empty()) {
      return;  // it has not told yet
    }
    has_any = has_any || !placement.devices.empty();
  }
  if (has_any) {
    builder->Set({ConditionType::kGpuAssignment,
                  true,
                  "AsPlanned",
                  "every pod sees the GPUs that it asked for, and no two pods see the same GPU"});
  }
}

}  // namespace lockstep::control
