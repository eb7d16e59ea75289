#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/contract/environment/environment.h"
#include "trainer-runtime/devices/device.h"
#include "trainer-runtime/supervisor/supervisor.h"
#include "trainer-runtime/telemetry/status_board.h"

namespace lockstep::runtime {

// The GPUs of this pod; none, and a warning, where they cannot be listed: the program itself will
// say what it misses.
std::vector<GpuDevice> FindPodDevices(const EnvironmentMap& variables, Logger* logger);

// Tells each process of the built-in trainer by name which devices are its own.
void GiveDevices(const std::vector<GpuDevice>& devices, std::vector<SupervisedProcess>* processes);

// Names to each process of a command the devices that it sees, as VisibleDevices says.
void ExposeDevices(const std::vector<GpuDevice>& devices,
                   std::optional<GpuVisibility> asked,
                   std::vector<SupervisedProcess>* processes);

// Shows on the board what the pod has, and which of its `process_count` processes use it.
void ShowDevices(const std::vector<GpuDevice>& devices, int process_count, StatusBoard* board);

// What `lockstep-runtime devices` prints: one line a device, or why there is none.
std::string DescribeDevices(const std::vector<GpuDevice>& devices, int process_count);

}  // namespace lockstep::runtime
