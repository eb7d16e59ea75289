#include "trainer-runtime/collectives/nccl/bounded_wait.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

namespace lockstep::runtime {

Status WaitUntil(const std::function<Result<bool>()>& is_done, const WaitLimits& limits) {
  constexpr Duration kNap = std::chrono::microseconds(50);
  constexpr Duration kCheckInterval = std::chrono::milliseconds(1);
  const TimePoint begin = SteadyNow();
  TimePoint checked_at = begin - kCheckInterval;
  while (true) {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool has_ended, is_done());
    if (has_ended) {
      return OkStatus();
    }
    const TimePoint now = SteadyNow();
    if (now - checked_at >= kCheckInterval) {
      checked_at = now;
      LOCKSTEP_RETURN_IF_ERROR(limits.check());
    }
    if (limits.deadline.HasPassed(now)) {
      return Error(ErrorCode::kTimeout, "deadline passed");
    }
    if (now - begin >= limits.spin) {
      std::this_thread::sleep_for(std::min(kNap, limits.deadline.Remaining(now)));
    } else {
      std::this_thread::yield();
    }
  }
}

BackgroundCall::BackgroundCall(std::function<int()> call) : outcome_(std::make_shared<Outcome>()) {
  std::thread([outcome = outcome_, call = std::move(call)] {
    outcome->value = call();
    outcome->is_known.store(true, std::memory_order_release);
  }).detach();
}

std::optional<int> BackgroundCall::Poll() const {
  return outcome_->is_known.load(std::memory_order_acquire) ? std::optional(outcome_->value)
                                                            : std::nullopt;
}

}  // namespace lockstep::runtime
