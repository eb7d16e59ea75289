#pragma once

#include <utility>

#include "common/base/time.h"

namespace lockstep {

// Measures consecutive pieces of work. For shells: it asks the clock. Thread: one.
class Stopwatch {
 public:
  // Time since it was made, or since the last call.
  Duration Lap() {
    const TimePoint now = SteadyNow();
    return now - std::exchange(last_, now);
  }

 private:
  TimePoint last_ = SteadyNow();
};

}  // namespace lockstep
