#include "operator/scheduler/hold_back.h"

#include <algorithm>

namespace lockstep::control {

HoldBack HoldBackOf(WallTime since, WallTime now, std::chrono::seconds window) {
  WallTime end = since;
  for (std::chrono::seconds length = window;; length *= 2) {
    for (const bool holds : {true, false}) {
      end += length;
      if (now < end) {
        return {holds, end};
      }
    }
  }
}

bool HoldBacks::HoldsBack(const GangRecord& gang) {
  if (window_.count() == 0 || gang.request.asking.stage == AskStage::kAwaited) {
    return true;
  }
  const WallTime since = std::max(gang.request.since, gang.request.waits_since);
  const HoldBack turn = HoldBackOf(since, statement_.now(), window_);
  next_ = std::min(next_.value_or(turn.until), turn.until);
  return turn.holds || looks_left_-- <= 0 || reservations_.IsReserved(gang);
}

}  // namespace lockstep::control
