#include "trainer-runtime/capi/call_queue.h"

#include <string>
#include <utility>

namespace lockstep::runtime {
namespace {

Error NoSuchCall(CallQueue::Handle handle) {
  return Error(ErrorCode::kInvalidArgument,
               "handle: call " + std::to_string(handle) +
                   " does not exist, or the program has already waited for it");
}

}  // namespace

CallQueue::CallQueue() : thread_([this](const std::stop_token& stop) { Run(stop); }) {}

CallQueue::~CallQueue() {
  AwaitIdle();
}

Result<CallQueue::Handle> CallQueue::Begin(std::function<Status()> work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (ends_.size() >= kUnclaimedMax) {
    return Error(ErrorCode::kResourceExhausted,
                 std::to_string(ends_.size()) +
                     " calls have begun, and the program has waited for none of them. This is the "
                     "maximum: wait for one of them first");
  }
  begun_.push_back({++last_handle_, std::move(work)});
  ends_[last_handle_] = std::nullopt;
  has_changed_.notify_all();
  return last_handle_;
}

Result<bool> CallQueue::HasEnded(Handle handle) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = ends_.find(handle);
  if (found == ends_.end()) {
    return NoSuchCall(handle);
  }
  return found->second.has_value();
}

Status CallQueue::Claim(Handle handle) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = ends_.find(handle);
  if (found == ends_.end()) {
    return NoSuchCall(handle);
  }
  has_changed_.wait(lock, [&] { return found->second.has_value(); });
  Status end = *std::move(found->second);
  ends_.erase(found);
  return end;
}

void CallQueue::AwaitIdle() {
  std::unique_lock<std::mutex> lock(mutex_);
  has_changed_.wait(lock, [this] { return begun_.empty() && !is_working_; });
}

bool CallQueue::IsIdle() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return begun_.empty() && !is_working_;
}

void CallQueue::Run(const std::stop_token& stop) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (has_changed_.wait(lock, stop, [this] { return !begun_.empty(); })) {
    const Begun next = std::move(begun_.front());
    begun_.pop_front();
    is_working_ = true;
    lock.unlock();
    Status end = next.work();
    lock.lock();
    is_working_ = false;
    ends_[next.handle] = std::move(end);
    has_changed_.notify_all();
  }
}

}  // namespace lockstep::runtime
