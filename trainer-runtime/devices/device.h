#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/environment/gpu_visibility.h"

namespace lockstep::runtime {

// One GPU that this pod may use. Indexes are never kept: they change with driver and reboot.
struct GpuDevice {
  std::string uuid;    // "GPU-..." or "MIG-..."
  std::string bus_id;  // PCI, "00000000:3B:00.0"; empty where only the name is known

  friend bool operator==(const GpuDevice&, const GpuDevice&) = default;
};

// How one GPU of this pod is used at a moment, by whomever. Null: the driver does not tell.
struct GpuUse {
  std::string uuid;
  // The part of the driver's last sample period (1/6 s to 1 s) in which a kernel ran; null of MIG
  // slices. Source: nvmlUtilization_t.
  std::optional<double> busy_ratio;
  std::optional<int64_t> memory_bytes;  // in use

  friend bool operator==(const GpuUse&, const GpuUse&) = default;
};

// The devices of each process of a pod, by local rank, as indexes into a list of `device_count`.
// As many processes as devices or more: process r has device r mod n, so that shares differ by at
// most one. Fewer: device d goes to process d mod p, so that every device is used. No devices:
// empty lists. Precondition (checked): process_count >= 1.
std::vector<std::vector<int>> AssignDevices(int device_count, int process_count);

// The devices that each process of a command sees, by local rank, as indexes into `devices`: as
// `asked` says. Where that is null all, but one each where processes share a device, or where a
// device is a slice of a GPU: CUDA shows a process one slice, whatever else is named to it.
// Source: NVIDIA's guide to MIG. Precondition (checked): process_count >= 1.
std::vector<std::vector<int>> VisibleDevices(const std::vector<GpuDevice>& devices,
                                             int process_count,
                                             std::optional<GpuVisibility> asked);

}  // namespace lockstep::runtime
