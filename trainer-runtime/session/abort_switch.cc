#include "trainer-runtime/session/abort_switch.h"

namespace lockstep::runtime {

void AbortSwitch::Set(Communicator* communicator, Epoch epoch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  communicator_ = communicator;
  epoch_ = epoch;
  if (communicator_ != nullptr && lost_reason_ != nullptr && lost_epoch_ >= epoch_) {
    communicator_->Abort(*lost_reason_);
  }
}

void AbortSwitch::Trip(Epoch epoch, const Error& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (lost_reason_ == nullptr || epoch > lost_epoch_) {
    lost_reason_ = std::make_unique<const Error>(reason);
    lost_epoch_ = epoch;
  }
  if (communicator_ != nullptr && epoch >= epoch_) {
    communicator_->Abort(reason);
  }
}

}  // namespace lockstep::runtime
