#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "common/base/result.h"
#include "common/base/time.h"

namespace lockstep::runtime {

// What ends a wait early.
struct WaitLimits {
  Deadline deadline;
  std::function<Status()> check;  // asked at least every millisecond; its error ends the wait
  // So long the thread only gives way to others, then it naps. Short sums are over within the
  // default; a nap shorter than the next takes as long. Choice.
  Duration spin = std::chrono::microseconds(50);
};

// Waits until `is_done` says so or fails. Neither it nor `check` may block.
// Errors: kTimeout ("deadline passed"), those of `is_done` and of `limits.check`.
Status WaitUntil(const std::function<Result<bool>()>& is_done, const WaitLimits& limits);

// A call that may never return, on a thread of its own: whoever waits for it can give up. The
// thread goes on by itself then, so the call must own all that it uses.
class BackgroundCall {
 public:
  explicit BackgroundCall(std::function<int()> call);

  // What the call returned; empty while it runs.
  std::optional<int> Poll() const;

 private:
  struct Outcome {
    std::atomic<bool> is_known{false};
    int value = 0;  // written before is_known
  };

  std::shared_ptr<Outcome> outcome_;  // shared with the thread, which may outlive this object
};

}  // namespace lockstep::runtime
