#pragma once

#include <cstdint>
#include <optional>

#include "common/base/strong_id.h"
#include "common/base/time.h"

namespace lockstep::runtime {

// How far training has come, for one line of the log.
struct TrainingProgress {
  Step step;
  int64_t data_epoch = 0;
  double loss = 0;                 // mean over the data epoch so far
  std::optional<double> accuracy;  // the same; absent where hits have no meaning

  friend bool operator==(const TrainingProgress&, const TrainingProgress&) = default;
};

// Chooses the steps that are worth a line: the last of each data epoch, though not more often than
// kPeriodMin, and one every kPeriodMax in between. Pure. Thread: one.
class ProgressLog {
 public:
  // Choices: a person looks more often than that at nothing, and an hour is no more than a screen
  // of 360 lines; epochs of a few steps are no flood.
  static constexpr Duration kPeriodMax = std::chrono::seconds(10);
  static constexpr Duration kPeriodMin = std::chrono::seconds(1);

  // A step is complete. Returns what to write, if anything.
  std::optional<TrainingProgress> Next(const TrainingProgress& progress, TimePoint now);

  // Training has ended: the last step, unless it was returned before.
  std::optional<TrainingProgress> Last();

 private:
  std::optional<TrainingProgress> newest_;  // not returned yet
  std::optional<TimePoint> told_at_;
};

}  // namespace lockstep::runtime
