#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "common/base/result.h"

namespace lockstep::runtime {

// Calls that were begun and are carried out one after the other, on a thread of their own.
// Thread: any.
class CallQueue {
 public:
  using Handle = uint64_t;

  CallQueue();
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  // `work` ends by itself: it has a deadline. Errors: kResourceExhausted (kUnclaimedMax calls were
  // begun whose ends nobody has asked for).
  Result<Handle> Begin(std::function<Status()> work);

  // Whether the call has ended. Errors: kInvalidArgument (no such call, or its end was claimed).
  Result<bool> HasEnded(Handle handle) const;

  // Waits for the call's end and hands it out, once. Errors: those of the call; kInvalidArgument as
  // above.
  Status Claim(Handle handle);

  // Waits until all that was begun has ended.
  void AwaitIdle();

  bool IsIdle() const;

  // Choice: more gradients than a network has buckets.
  static constexpr std::size_t kUnclaimedMax = 4096;

 private:
  struct Begun {
    Handle handle;
    std::function<Status()> work;
  };

  void Run(const std::stop_token& stop);

  mutable std::mutex mutex_;
  std::condition_variable_any has_changed_;
  Handle last_handle_ = 0;  // all guarded by mutex_
  std::deque<Begun> begun_;
  bool is_working_ = false;
  std::map<Handle, std::optional<Status>> ends_;  // of calls that nobody has claimed
  std::jthread thread_;                           // last: ends before what it uses
};

}  // namespace lockstep::runtime
