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
  const auto [entry, is_first] = by_queue_.try_emplace(*gang.queue, true);
  if (is_first && window_.count() > 0 && gang.request.asking.stage != AskStage::kAwaited) {
    const WallTime since = std::max(gang.request.since, gang.request.waits_since);
    const HoldBack turn = HoldBackOf(since, statement_.now(), window_);
    entry->second = turn.holds || reservations_.IsReserved(gang);
    next_ = std::min(next_.value_or(turn.until), turn.until);
  }
  return entry->second;
}

}  // namespace lockstep::control
