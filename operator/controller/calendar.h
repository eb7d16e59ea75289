#pragma once

#include <chrono>

#include "common/base/time.h"

namespace lockstep::control {

// The calendar as it was at one moment, carried on by the monotonic clock: a step of the calendar
// clock meanwhile neither expires nor extends a deadline.
class Calendar {
 public:
  // Both are the same moment.
  Calendar(TimePoint now, WallTime wall_now) : start_(now), wall_start_(wall_now) {}

  WallTime At(TimePoint when) const {
    return wall_start_ + std::chrono::floor<std::chrono::milliseconds>(when - start_);
  }

  TimePoint MomentOf(WallTime when) const { return start_ + (when - wall_start_); }

 private:
  TimePoint start_;
  WallTime wall_start_;
};

}  // namespace lockstep::control
