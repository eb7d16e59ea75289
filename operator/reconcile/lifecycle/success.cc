#include "operator/reconcile/lifecycle/success.h"

#include <array>
#include <cstdio>
#include <optional>
#include <string>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/success_policy.h"
#include "operator/reconcile/lifecycle/progress.h"

namespace lockstep::control {
namespace {

// ": test accuracy 97.3 %"; empty where training was not tested.
std::string DescribeResult(const std::optional<TestResult>& result) {
  if (!result.has_value() || !result->test_accuracy.has_value()) {
    return "";
  }
  std::array<char, 32> percent{};
  std::snprintf(percent.data(), percent.size(), "%.1f", 100 * *result->test_accuracy);
  return std::string(": test accuracy ") + percent.data() + " %";
}

void Succeed(const GangView& view, const std::string& who, DecisionBuilder* builder) {
  NoteResult(view, builder);
  builder->Set({ConditionType::kSucceeded,
                true,
                "JobSucceeded",
                who + DescribeResult(builder->status().result)});
  builder->mutable_lifecycle()->completion_time = builder->now();
  builder->Count(Metric::kJobsFinished, "succeeded");
}

}  // namespace

DecisiveEnd EndBySuccess(const GangView& view, DecisionBuilder* builder) {
  const DecisiveEnd end = DecisiveEndOf(view, builder);
  if (end == DecisiveEnd::kOver) {
    Succeed(
        view, DescribeSuccess(builder->spec().success_policy, builder->topology(), view), builder);
    return end;
  }
  if (end == DecisiveEnd::kAwaited) {
    return end;
  }
  if (const Member* finished = builder->is_training() ? FinishedBefore(view) : nullptr) {
    Succeed(view, "training has finished, as reported by " + TaskName(finished->task), builder);
    return DecisiveEnd::kOver;
  }
  return end;
}

}  // namespace lockstep::control
