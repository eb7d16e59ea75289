#include "trainer-runtime/cmd/pod_devices.h"

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
  const auto assigned =
      AssignDevices(static_cast<int>(devices.size()), static_cast<int>(processes->size()));
  for (std::size_t local_rank = 0; local_rank < processes->size(); ++local_rank) {
    std::vector<GpuDevice> own;
    for (const int device : assigned[local_rank]) {
      own.push_back(devices[static_cast<std::size_t>(device)]);
    }
    EnvironmentMap& environment = (*processes)[local_rank].environment;
    for (auto& [name, value] : DeviceVariables(own, environment)) {
      environment[name] = value;
    }
  }
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
           " shows none or is not installed, and NVIDIA_VISIBLE_DEVICES names none\n";
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
