#pragma once

#include <cstdint>

#include "common/base/time.h"
#include "common/contract/environment/topology.h"

namespace lockstep::control {

// The tasks of most runs in tests.
inline constexpr TaskId kWorker0{Role::kWorker, 0};
inline constexpr TaskId kWorker1{Role::kWorker, 1};

// Milliseconds of an arbitrary monotonic clock.
inline TimePoint At(int64_t when_ms) {
  return TimePoint(std::chrono::milliseconds(when_ms));
}

}  // namespace lockstep::control
