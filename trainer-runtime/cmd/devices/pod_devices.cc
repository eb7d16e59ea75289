#include "trainer-runtime/cmd/devices/pod_devices.h"

#include <utility>

#include "trainer-runtime/devices/device_list.h"

namespace lockstep::runtime {
namespace {

// The processes of each device, by the device's index.
std::vector<std::vector<int>> UsersOf(std::size_t device_count, int process_count) {
  std::vector<std::vector<int>> users(device_count);
  const auto assigned = AssignDevices(static_cast<int>(device_count), process_count);
  for (int local_rank = 0; local_rank < process_count; ++local_rank) {
    for (const int device : assigned[static_cast<std::size_t>(local_rank)]) {
      users[static_cast<std::size_t>(device)].push_back(local_rank);
    }
  }
  return users;
}

// `lists` are indexes into `devices`, by local rank.
void NameDevices(const std::vector<GpuDevice>& devices,
                 const std::vector<std::vector<int>>& lists,
                 std::vector<SupervisedProcess>* processes) {
  for (std::size_t local_rank = 0; local_rank < processes->size(); ++local_rank) {
    std::vector<GpuDevice> named;
    for (const int device : lists[local_rank]) {
      named.push_back(devices[static_cast<std::size_t>(device)]);
    }
    EnvironmentMap& environment = (*processes)[local_rank].environment;
    for (auto& [name, value] : DeviceVariables(named, environment)) {
      environment[name] = value;
    }
  }
}

}  // namespace

std::vector<GpuDevice> FindPodDevices(const EnvironmentMap& variables, Logger* logger) {
  Result<std::vector<GpuDevice>> devices = ListDevices(variables);
  if (!devices.ok()) {
    logger->Warn("GPUs could not be listed", {{"error", devices.error().ToString()}});
    return {};
  }
  return std::move(devices).value();
}

void GiveDevices(const std::vector<GpuDevice>& devices, std::vector<SupervisedProcess>* processes) {
  NameDevices(devices,
              AssignDevices(static_cast<int>(devices.size()), static_cast<int>(processes->size())),
              processes);
}

void ExposeDevices(const std::vector<GpuDevice>& devices,
                   std::optional<GpuVisibility> asked,
                   std::vector<SupervisedProcess>* processes) {
  NameDevices(
      devices, VisibleDevices(devices, static_cast<int>(processes->size()), asked), processes);
}

void ShowDevices(const std::vector<GpuDevice>& devices, int process_count, StatusBoard* board) {
  const auto users = UsersOf(devices.size(), process_count);
  board->Update([&](StatusDocument& document) {
    document.devices.clear();
    for (std::size_t i = 0; i < devices.size(); ++i) {
      document.devices.push_back({devices[i].uuid, devices[i].bus_id, users[i]});
    }
  });
}

std::string DescribeDevices(const std::vector<GpuDevice>& devices, int process_count) {
  if (devices.empty()) {
    return std::string("no GPU is visible: ") + kNvmlLibrary +
           " shows no GPU or is not installed, and NVIDIA_VISIBLE_DEVICES names no GPU\n";
  }
  const auto users = UsersOf(devices.size(), process_count);
  std::string text;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    text += devices[i].uuid + "  " + (devices[i].bus_id.empty() ? "-" : devices[i].bus_id) +
            "  local ranks";
    for (const int local_rank : users[i]) {
      text += " " + std::to_string(local_rank);
    }
    text += "\n";
  }
  return text;
}

}  // namespace lockstep::runtime
