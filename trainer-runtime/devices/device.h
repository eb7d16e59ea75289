#pragma once

#include <string>
#include <vector>

namespace lockstep::runtime {

// One GPU that this pod may use. Indexes are never kept: they change with driver and reboot.
struct GpuDevice {
  std::string uuid;    // "GPU-..." or "MIG-..."
  std::string bus_id;  // PCI, "00000000:3B:00.0"; empty where only the name is known

  friend bool operator==(const GpuDevice&, const GpuDevice&) = default;
};

// The devices of each process of a pod, by local rank, as indexes into a list of `device_count`.
// As many processes as devices or more: process r has device r mod n, so that shares differ by at
// most one. Fewer: device d goes to process d mod p, so that every device is used. No devices:
// empty lists. Precondition (checked): process_count >= 1.
std::vector<std::vector<int>> AssignDevices(int device_count, int process_count);

}  // namespace lockstep::runtime
