#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/time.h"

namespace lockstep {

// "3 ms", for messages: whole ones, rounded up, and at least one, as nobody measures none.
inline std::string WholeMilliseconds(Duration duration) {
  const int64_t count = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return std::to_string(std::max<int64_t>(1, count)) + " ms";
}

}  // namespace lockstep
