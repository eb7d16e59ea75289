#include "trainer-runtime/devices/device.h"

#include <algorithm>
#include <numeric>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

GpuVisibility UsualVisibility(const std::vector<GpuDevice>& devices, int process_count) {
  const bool has_slices = std::any_of(devices.begin(), devices.end(), [](const GpuDevice& device) {
    return device.uuid.rfind("MIG-", 0) == 0;
  });
  const bool is_shared = static_cast<std::size_t>(process_count) > devices.size();
  return process_count > 1 && (is_shared || has_slices) ? GpuVisibility::kOne : GpuVisibility::kAll;
}

}  // namespace

std::vector<std::vector<int>> AssignDevices(int device_count, int process_count) {
  LOCKSTEP_CHECK(process_count >= 1, std::to_string(process_count) + " processes");
  std::vector<std::vector<int>> assigned(static_cast<std::size_t>(process_count));
  if (device_count <= 0) {
    return assigned;
  }
  const int pair_count = std::max(device_count, process_count);
  for (int i = 0; i < pair_count; ++i) {
    assigned[static_cast<std::size_t>(i % process_count)].push_back(i % device_count);
  }
  return assigned;
}

std::vector<std::vector<int>> VisibleDevices(const std::vector<GpuDevice>& devices,
                                             int process_count,
                                             std::optional<GpuVisibility> asked) {
  LOCKSTEP_CHECK(process_count >= 1, std::to_string(process_count) + " processes");
  const int device_count = static_cast<int>(devices.size());
  std::vector<std::vector<int>> visible(static_cast<std::size_t>(process_count));
  if (asked.value_or(UsualVisibility(devices, process_count)) == GpuVisibility::kAll) {
    std::vector<int> all(devices.size());
    std::iota(all.begin(), all.end(), 0);
    std::fill(visible.begin(), visible.end(), all);
    return visible;
  }
  for (int local_rank = 0; device_count > 0 && local_rank < process_count; ++local_rank) {
    visible[static_cast<std::size_t>(local_rank)] = {local_rank % device_count};
  }
  return visible;
}

}  // namespace lockstep::runtime
