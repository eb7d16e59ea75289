#include "operator/reconcile/act/run_time.h"

#include <optional>
#include <string>

#include "operator/reconcile/policy/deadline.h"

namespace lockstep::control {
namespace {

// Of two limits that end at one moment the job's own is told: its users can change that.
std::string DescribeLimit(const DecisionBuilder& builder) {
  const std::optional<std::chrono::seconds>& own = builder.spec().run_policy.active_deadline;
  const std::optional<RunTimeLimit>& of_queue = builder.observed().run_time_limit;
  if (own.has_value() && (!of_queue.has_value() || *own <= of_queue->limit)) {
    return "the job ran longer than runPolicy.activeDeadlineSeconds, " +
           std::to_string(own->count()) + " s";
  }
  return "the job ran for the " + std::to_string(of_queue->limit.count()) + " s that queue " +
         of_queue->queue + " lets its jobs run (maxRuntimeSeconds)";
}

}  // namespace

bool HasRunTooLong(DecisionBuilder* builder) {
  TrainingJob started = builder->job();
  started.status = builder->status();
  const std::optional<WallTime> deadline =
      ActiveDeadline(started, builder->observed().run_time_limit);
  if (!deadline.has_value()) {
    return false;
  }
  if (builder->now() < *deadline) {
    builder->WakeAt(*deadline);
    return false;
  }
  builder->Fail("DeadlineExceeded", DescribeLimit(*builder));
  return true;
}

}  // namespace lockstep::control
