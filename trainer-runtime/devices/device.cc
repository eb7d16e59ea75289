#include "trainer-runtime/devices/device.h"

#include <algorithm>

#include "common/base/check.h"

namespace lockstep::runtime {

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

}  // namespace lockstep::runtime
