#include "operator/reconcile/lifecycle/finish.h"

#include <optional>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/lifecycle/clean_pod_policy.h"
#include "operator/reconcile/pods/grace.h"
#include "operator/reconcile/recovery/gang_relaunch.h"
#include "operator/reconcile/recovery/late_verdict.h"

namespace lockstep::control {
namespace {

// Workers beside parameter servers serve the chief that has just finished: they have no last lines.
bool IsServer(const DecisionBuilder& builder, const Member& member) {
  return !builder.is_training() && member.task.role == Role::kWorker &&
         builder.job().FindRole(Role::kPs) != nullptr &&
         builder.job().FindRole(Role::kChief) != nullptr;
}

void CleanPods(const GangView& view, DecisionBuilder* builder) {
  const CleanPodPolicy policy = CleanPodPolicyOf(builder->spec(), builder->status());
  const auto clean = [&](const kube::Pod& pod) {
    if (IsCleaned(policy, pod)) {
      builder->Delete(pod,
                      GraceOf(pod, builder->status(), builder->observed(), builder->is_training()),
                      "the job has ended");
    }
  };
  for (const kube::Pod* pod : view.stale) {
    clean(*pod);
  }
  for (const Member& member : view.members) {
    if (member.pod == nullptr) {
      continue;
    }
    const auto until =
        MayFinishUntil(builder->spec().run_policy, builder->status(), member, builder->now());
    if (until.has_value() && policy != CleanPodPolicy::kNone && !IsServer(*builder, member)) {
      builder->WakeAt(*until);
      continue;
    }
    // One that is held ends as its program did, and its log stays as that of any other.
    if (member.state != MemberState::kHeld || policy == CleanPodPolicy::kAll) {
      clean(*member.pod);
    }
  }
}

// The moment at which a finished job is removed; null when it stays, or has not finished.
std::optional<WallTime> ExpiryTime(const TrainingJob& job) {
  const auto& ttl = job.spec.run_policy.ttl_after_finished;
  if (!ttl.has_value() || !HasEnded(job.status) || !job.status.completion_time.has_value()) {
    return std::nullopt;
  }
  return *job.status.completion_time + *ttl;
}

}  // namespace

void Finish(const GangView& view, DecisionBuilder* builder) {
  LearnVerdicts(view, builder);
  ReleaseHeld(view, builder);
  CleanPods(view, builder);
  TrainingJob ended = builder->job();
  ended.status = builder->status();
  if (const auto expiry = ExpiryTime(ended)) {
    if (*expiry <= builder->now()) {
      builder->Do(DeleteJob{});
    } else {
      builder->WakeAt(*expiry);
    }
  }
}

}  // namespace lockstep::control
