#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "common/base/error.h"

namespace lockstep::runtime {

// Holds the first error a communicator met; it never changes after that. Thread: any.
class FailureLatch {
 public:
  // Keeps `error` if it is the first. Returns whether it was.
  bool Set(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (error_.has_value()) {
      return false;
    }
    error_ = error;
    is_set_.store(true, std::memory_order_release);
    return true;
  }

  bool is_set() const noexcept { return is_set_.load(std::memory_order_acquire); }

  // The first error. Precondition (checked by optional): is_set().
  Error Get() const {
    const std::lock_guard lock(mutex_);
    return error_.value();
  }

 private:
  // A lock held for one copy: the flag lets waiters look without it.
  mutable std::mutex mutex_;
  std::optional<Error> error_;
  std::atomic<bool> is_set_{false};
};

}  // namespace lockstep::runtime
