#include "operator/reconcile/policy/budget.h"

#include <algorithm>

#include "common/contract/exit_code.h"

namespace lockstep::control {
namespace {

int64_t SumOf(const TrainingJobStatus& status, bool is_counted) {
  int64_t sum = 0;
  for (const RestartCount& restart : status.restarts) {
    sum += IsCounted(restart.cause) == is_counted ? restart.count : 0;
  }
  return sum;
}

}  // namespace

bool IsCounted(std::string_view cause) {
  return cause != ExitCauseName(ExitCause::kPreempted) &&
         cause != ExitCauseName(ExitCause::kCompleted) && cause != kCauseNotStarted;
}

int64_t CountedRestarts(const TrainingJobStatus& status) {
  return SumOf(status, /*is_counted=*/true);
}

int64_t UncountedRestarts(const TrainingJobStatus& status) {
  return SumOf(status, /*is_counted=*/false);
}

bool HasBudget(const TrainingJobStatus& status, int64_t backoff_limit, std::string_view cause) {
  return IsCounted(cause) ? CountedRestarts(status) < backoff_limit
                          : UncountedRestarts(status) < kUncountedRestartsMax;
}

void CountRestart(std::string_view cause, TrainingJobStatus* status) {
  const std::string key(cause);
  const auto place =
      std::lower_bound(status->restarts.begin(),
                       status->restarts.end(),
                       key,
                       [](const RestartCount& a, const std::string& b) { return a.cause < b; });
  if (place != status->restarts.end() && place->cause == key) {
    ++place->count;
  } else {
    status->restarts.insert(place, {key, 1});
  }
}

int64_t RestartsFor(std::string_view cause, const TrainingJobStatus& status) {
  for (const RestartCount& restart : status.restarts) {
    if (restart.cause == cause) {
      return restart.count;
    }
  }
  return 0;
}

void MoveRestart(std::string_view from, std::string_view to, TrainingJobStatus* status) {
  for (RestartCount& restart : status->restarts) {
    restart.count -= restart.cause == from ? 1 : 0;
  }
  std::erase_if(status->restarts, [](const RestartCount& restart) { return restart.count == 0; });
  CountRestart(to, status);
}

}  // namespace lockstep::control
