#pragma once

#include "common/base/time.h"

namespace lockstep {

// For tests: stands still until told. Both clocks show the same moment.
class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return now; }

  WallTime WallNow() const override {
    return WallTime(std::chrono::duration_cast<WallTime::duration>(now.time_since_epoch()));
  }

  void Advance(Duration step) { now += step; }

  TimePoint now{std::chrono::seconds(1000)};
};

}  // namespace lockstep
