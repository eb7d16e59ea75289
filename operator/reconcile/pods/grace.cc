#include "operator/reconcile/pods/grace.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/contract/environment/topology.h"
#include "operator/api/status/conditions.h"

namespace lockstep::control {
namespace {

// Choices: time to end in order, for those that do.
constexpr std::chrono::seconds kRollbackGrace{5};
constexpr std::chrono::seconds kLossGrace{2};

bool IsLoss(const Condition& failed) {
  return failed.reason == "PodFailed" || failed.reason == "BackoffLimitExceeded";
}

}  // namespace

Farewell FarewellOf(const TrainingJobStatus& status) {
  if (IsTrue(status, ConditionType::kSucceeded)) {
    return Farewell::kSuccess;
  }
  if (IsTrue(status, ConditionType::kFailed)) {
    return IsLoss(*FindCondition(status, ConditionType::kFailed)) ? Farewell::kLoss
                                                                  : Farewell::kRequest;
  }
  if (IsTrue(status, ConditionType::kRestarting) &&
      FindCondition(status, ConditionType::kRestarting)->reason == "GangRestart") {
    return Farewell::kLoss;
  }
  return status.rollbacks > 0 && status.placement.empty() ? Farewell::kRollback
                                                          : Farewell::kRequest;
}

std::chrono::seconds GraceFor(Farewell farewell,
                              Role role,
                              bool is_training,
                              std::chrono::seconds grace) {
  switch (farewell) {
    case Farewell::kRequest:
      return grace;
    case Farewell::kRollback:
      return std::min(grace, kRollbackGrace);
    case Farewell::kLoss:
      return is_training ? grace : std::min(grace, kLossGrace);
    case Farewell::kSuccess:
      return is_training || role == Role::kEvaluator ? grace : std::min(grace, kLossGrace);
  }
  LOCKSTEP_CHECK(false, "unknown value of Farewell");
}

std::chrono::seconds GraceOf(const kube::Pod& pod,
                             const TrainingJobStatus& status,
                             const Observed& observed,
                             bool is_training) {
  if (observed.mute_pods.count(pod.name) > 0) {
    return std::chrono::seconds(0);
  }
  const auto name = ParsePodName(pod.name);
  return name.has_value()
             ? GraceFor(
                   FarewellOf(status), name->task.role, is_training, pod.spec.termination_grace)
             : pod.spec.termination_grace;
}

}  // namespace lockstep::control
