#include "operator/cli/checkpoint_watch.h"

#include <utility>

namespace lockstep::control {

void CheckpointWatch::Report(const StatusDocument& document) {
  const CheckpointStatus& now = document.checkpoints;
  const CheckpointStatus before = std::exchange(newest_[document.pod], now);
  if (now.restored_step && !before.restored_step) {
    first_restored_ = first_restored_.value_or(*now.restored_step);
    remarks_.push_back({false,
                        "training goes on from the checkpoint of step " +
                            std::to_string(now.restored_step->value())});
  }
  if (now.failed > before.failed && now.last_error != told_error_) {
    told_error_ = now.last_error;
    remarks_.push_back({true, "checkpoint not written, training goes on: " + now.last_error});
  }
  if (now.written > before.written && now.last_error.empty() && !told_error_.empty()) {
    told_error_.clear();
    remarks_.push_back(
        {false,
         "checkpoints are written again" +
             (document.last_checkpoint_step
                  ? ", that of step " + std::to_string(document.last_checkpoint_step->value())
                  : "")});
  }
  if (now.skipped > before.skipped && !has_told_skip_) {
    has_told_skip_ = true;
    remarks_.push_back({false,
                        "checkpoint skipped: the one before was still being written; a larger "
                        "checkpoint.everySteps skips none"});
  }
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
  tally.last_error = told_error_;
  tally.restored_step = first_restored_;
  return tally;
}

}  // namespace lockstep::control
