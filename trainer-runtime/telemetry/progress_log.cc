#include "trainer-runtime/telemetry/progress_log.h"

#include <utility>

namespace lockstep::runtime {

std::optional<TrainingProgress> ProgressLog::Next(const TrainingProgress& progress, TimePoint now) {
  told_at_ = told_at_.value_or(now);  // the first line comes when there is something to tell
  const Duration silent_for = now - *told_at_;
  const bool is_epoch_over = newest_.has_value() && newest_->data_epoch != progress.data_epoch;
  std::optional<TrainingProgress> told;
  if (is_epoch_over && silent_for >= kPeriodMin) {
    told = newest_;
  } else if (silent_for >= kPeriodMax) {
    told = progress;
  }
  if (told.has_value()) {
    told_at_ = now;
  }
  newest_ = told == progress ? std::nullopt : std::optional(progress);
  return told;
}

std::optional<TrainingProgress> ProgressLog::Last() {
  return std::exchange(newest_, std::nullopt);
}

}  // namespace lockstep::runtime
