#pragma once

#include "common/base/time.h"

namespace lockstep::control {

// How eagerly a stream of events is read: to be woken for each costs more than to read one. What
// comes after a silence is read at once, and so is what came together with it; when more follows
// on its heels, that is left to gather for one interval. No event waits longer.
// Thread: one.
class ReadPace {
 public:
  explicit ReadPace(Duration interval) : interval_(interval) {}

  // The reading begins, or goes on.
  void Begin(TimePoint now) { reads_since_ = now; }

  // Bytes came at `came` and were dealt with at `done`: how long not to read now.
  Duration AfterBytes(TimePoint came, TimePoint done) {
    const Duration waited = came - reads_since_;
    reads_since_ = done;
    return waited > kWasThere && waited < interval_ ? interval_ : Duration::zero();
  }

 private:
  // What is there this soon after it was asked for had come before; more may have come with it.
  static constexpr Duration kWasThere = std::chrono::milliseconds(1);

  Duration interval_;
  TimePoint reads_since_{};
};

}  // namespace lockstep::control
