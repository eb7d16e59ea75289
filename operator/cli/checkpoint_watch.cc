#include "operator/cli/checkpoint_watch.h"

#include <algorithm>
#include <utility>

namespace lockstep::control {

void CheckpointWatch::Report(const std::string& pod,
                             const CheckpointStatus& now,
                             std::optional<Step> newest,
                             bool are_last_words) {
  const CheckpointStatus before = newest_[pod];
  if (now.written + now.failed + now.skipped < before.written + before.failed + before.skipped) {
    return;  // a report that comes after the last words
  }
  newest_[pod] = now;
  if (now.restored_step && !before.restored_step) {
    // One that the run wrote itself, for a gang that starts anew, is not what it began with.
    if (begun_with_ && *now.restored_step <= *begun_with_) {
      first_restored_ = first_restored_.value_or(*now.restored_step);
    }
    TellRestored(*now.restored_step);
  }
  newest_step_ = std::max(newest_step_, newest);
  if (now.failed > before.failed) {
    // Each failure names another file: what is told once is that they fail.
    if (last_error_.empty()) {
      const std::string goes_on = are_last_words ? "" : ", training goes on";
      remarks_.push_back({true, "checkpoint not written" + goes_on + ": " + now.last_error});
    }
    last_error_ = now.last_error;
    last_error_pod_ = pod;
  }
  if (now.written > before.written && now.last_error.empty() && !last_error_.empty()) {
    last_error_.clear();
    last_error_pod_.clear();
    remarks_.push_back({false,
                        "checkpoints are written again" +
                            (newest ? ", that of step " + std::to_string(newest->value()) : "")});
  }
  if (now.skipped > before.skipped && !has_told_skip_) {
    has_told_skip_ = true;
    remarks_.push_back({false,
                        "checkpoint skipped: the one before was still being written; a larger "
                        "checkpoint.everySteps skips none"});
  }
}

void CheckpointWatch::TellRestored(Step step) {
  const std::string text =
      "training goes on from the checkpoint of step " + std::to_string(step.value());
  const bool is_older = newest_step_ && step < *newest_step_;
  remarks_.push_back({is_older,
                      text + (is_older ? ": that of step " + std::to_string(newest_step_->value()) +
                                             " cannot be used; the log of worker 0 says why"
                                       : "")});
}

std::vector<CheckpointRemark> CheckpointWatch::TakeRemarks() {
  return std::exchange(remarks_, {});
}

CheckpointTally CheckpointWatch::Tally() const {
  CheckpointTally tally;
  for (const auto& [pod, status] : newest_) {
    tally.failed += status.failed;
    tally.skipped += status.skipped;
  }
  tally.last_error = last_error_;
  tally.last_error_pod = last_error_pod_;
  tally.restored_step = first_restored_;
  return tally;
}

}  // namespace lockstep::control
