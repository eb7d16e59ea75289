#include "trainer-runtime/session/abort_switch.h"

#include <cerrno>
#include <fcntl.h>
#include <utility>

#include <sys/socket.h>

namespace lockstep::runtime {

Status AbortSwitch::ArmLinks(const std::vector<UniqueFd>& links, Epoch epoch) {
  std::vector<UniqueFd> copies;
  for (const UniqueFd& link : links) {
    if (!link.is_open()) {
      continue;  // to oneself
    }
    copies.emplace_back(::fcntl(link.get(), F_DUPFD_CLOEXEC, 0));
    if (!copies.back().is_open()) {
      return SystemError(errno, "copy the descriptor of a link");
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  communicator_ = nullptr;
  links_ = std::move(copies);
  epoch_ = epoch;
  StrikeLocked();
  return OkStatus();
}

void AbortSwitch::ArmCommunicator(Communicator* communicator, Epoch epoch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  links_.clear();
  communicator_ = communicator;
  epoch_ = epoch;
  StrikeLocked();
}

void AbortSwitch::Disarm() {
  const std::lock_guard<std::mutex> lock(mutex_);
  links_.clear();
  communicator_ = nullptr;
}

void AbortSwitch::Trip(Epoch epoch, const Error& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  TripLocked(epoch, reason);
}

void AbortSwitch::TripNewest(const Error& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  TripLocked(epoch_, reason);
}

void AbortSwitch::TripLocked(Epoch epoch, const Error& reason) {
  if (!lost_reason_.has_value() || epoch > lost_epoch_) {
    lost_reason_ = reason;
    lost_epoch_ = epoch;
  }
  StrikeLocked();
}

void AbortSwitch::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_stopped_ = true;
  StrikeLocked();
}

std::optional<Error> AbortSwitch::Reason(Epoch epoch) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ReasonLocked(epoch);
}

std::optional<Error> AbortSwitch::AwaitReason(Epoch epoch, Deadline deadline) const {
  std::unique_lock<std::mutex> lock(mutex_);
  has_struck_.wait_until(lock, deadline.when(), [&] { return ReasonLocked(epoch).has_value(); });
  return ReasonLocked(epoch);
}

std::optional<Error> AbortSwitch::ReasonLocked(Epoch epoch) const {
  if (is_stopped_) {
    return Error(ErrorCode::kAborted, "joining was stopped on request");
  }
  return lost_reason_.has_value() && lost_epoch_ >= epoch ? lost_reason_ : std::nullopt;
}

// Joining waits on links only, so their end is what it hears. A collective is told the reason; it
// goes on when this process is asked to stop, because ranks stop together, after a step.
void AbortSwitch::StrikeLocked() {
  has_struck_.notify_all();
  if (!links_.empty() && ReasonLocked(epoch_).has_value()) {
    for (const UniqueFd& link : links_) {
      ::shutdown(link.get(), SHUT_RDWR);
    }
  }
  if (communicator_ != nullptr && lost_reason_.has_value() && lost_epoch_ >= epoch_) {
    communicator_->Abort(*lost_reason_);
  }
}

}  // namespace lockstep::runtime
