#include "operator/reconcile/lifecycle/release.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/name_list.h"
#include "operator/api/status/conditions.h"
#include "operator/capacity/ask_capacity.h"
#include "operator/capacity/kueue_share.h"
#include "operator/capacity/native_binding.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {
namespace {

// With which garbage collection keeps a job until its pods are gone.
constexpr const char* kForegroundDeletion = "foregroundDeletion";

// With which it takes the job's name off its pods, which stay. Source: k8s.io/apimachinery,
// pkg/apis/meta/v1 (FinalizerOrphanDependents).
constexpr const char* kOrphan = "orphan";

constexpr const char* kPodsOrphaned =
    "the job is being deleted without its pods (--cascade=orphan): the pods continue to run and "
    "keep their resources until somebody deletes them; lost pods are not replaced";

// Of a job with pods, which are garbage collection's: whether it waits for the job, or the job for
// it, or lets them be, is in the job's finalizers. `told`: Scheduled before; null: nothing. The
// finalizer that lets them be is gone once that is done, while others may keep the job.
std::string WhatBecomesOfPods(const std::vector<std::string>& finalizers, const Condition* told) {
  const auto has = [&](const char* finalizer) {
    return std::find(finalizers.begin(), finalizers.end(), finalizer) != finalizers.end();
  };
  if (has(kOrphan) || (told != nullptr && told->message == kPodsOrphaned)) {
    return kPodsOrphaned;
  }
  const bool go_first = has(kForegroundDeletion);
  const std::string until = finalizers.empty()
                                ? "the job is gone"
                                : "the job's finalizers " + NameList(finalizers) + " are removed";
  return (go_first ? "the job is being deleted: first its pods, then the job"
                   : "the job is being deleted: its pods continue to run until " + until +
                         ", and are then deleted") +
         std::string("; lost pods are not replaced");
}

}  // namespace

Decision ReleaseJob(const TrainingJob& job, const Observed& observed, WallTime now) {
  TrainingJob silent = job;
  silent.spec.run_policy.suspend = true;  // it asks for as little as one that is to stand still
  DecisionBuilder builder(silent, observed, now);
  if (!HasEnded(job.status) && job.status.placement.empty()) {
    builder.SetQuietly({ConditionType::kScheduled,
                        false,
                        std::string(kReasonJobDeleted),
                        "the job is being deleted and no longer waits"});
    builder.mutable_waiting()->queue.reset();
    builder.mutable_waiting()->claim.reset();
    TellKueue(ViewGang(job.metadata, job.status, builder.topology(), observed), &builder);
    TellScheduler(&builder);
  } else if (!HasEnded(job.status)) {
    builder.Set({ConditionType::kScheduled,
                 IsTrue(job.status, ConditionType::kScheduled),
                 std::string(kReasonJobDeleted),
                 WhatBecomesOfPods(observed.job_finalizers,
                                   FindCondition(job.status, ConditionType::kScheduled))},
                EventType::kWarning);
  }
  TellAutoscaler(&builder);
  return builder.Take();
}

}  // namespace lockstep::control
