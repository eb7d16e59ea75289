#include "trainer-runtime/engine/capture_policy.h"

#include <utility>

namespace lockstep::runtime {
namespace {

// "8 samples", "8 samples in 3 buckets".
std::string WordsOf(const StepShape& shape) {
  std::string words = std::to_string(shape.sample_count) + " samples";
  if (shape.ready_at.has_value()) {
    words += " in " + std::to_string(shape.ready_at->size()) + " buckets";
  }
  return words;
}

}  // namespace

StepWay CapturePolicy::Next(const StepShape& shape) {
  if (is_given_up_ || shape.sample_count == 0) {
    return StepWay::kEager;
  }
  if (captured_ == shape) {
    row_.reset();
    return StepWay::kReplay;
  }
  if (row_ != shape) {
    row_ = shape;
    row_length_ = 0;
  }
  if (row_length_ < kWarmUpSteps) {
    ++row_length_;
    if (captured_.has_value()) {
      Tell(&has_told_of_other_,
           "a step with " + WordsOf(shape) +
               " does not use the CUDA graph, which was captured with " + WordsOf(*captured_));
    }
    return StepWay::kEager;
  }
  if (capture_count_ == kCapturesMax) {
    is_given_up_ = true;
    captured_.reset();
    Tell(&has_told_of_end_,
         "steps are no longer captured as a CUDA graph: their shape has changed " +
             std::to_string(kCapturesMax) + " times");
    return StepWay::kEager;
  }
  return StepWay::kCapture;
}

void CapturePolicy::Captured() {
  ++capture_count_;
  captured_ = std::exchange(row_, std::nullopt);
  Tell(&has_told_of_capture_, "steps with " + WordsOf(*captured_) + " run as one CUDA graph");
}

void CapturePolicy::Failed(const Error& reason) {
  is_given_up_ = true;
  captured_.reset();
  Tell(&has_told_of_end_, "steps are not captured as a CUDA graph: " + reason.message());
}

std::optional<std::string> CapturePolicy::TakeNotice() {
  if (notices_.empty()) {
    return std::nullopt;
  }
  std::string notice = std::move(notices_.front());
  notices_.pop_front();
  return notice;
}

void CapturePolicy::Tell(bool* has_told, std::string notice) {
  if (!std::exchange(*has_told, true)) {
    notices_.push_back(std::move(notice));
  }
}

}  // namespace lockstep::runtime
