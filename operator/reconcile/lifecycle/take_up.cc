#include "operator/reconcile/lifecycle/take_up.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/plural.h"
#include "common/contract/environment/relaunch.h"
#include "operator/reconcile/gang/gang_size.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {
namespace {

Attempt NewestAttempt(const std::vector<OwnPod>& pods) {
  Attempt newest;
  for (const OwnPod& own : pods) {
    newest = std::max(newest, own.identity.number.attempt);
  }
  return newest;
}

// The pods of the attempt that stand for its tasks now: of each the newest.
std::map<TaskId, OwnPod> NewestOf(Attempt attempt, const std::vector<OwnPod>& pods) {
  std::map<TaskId, OwnPod> newest;
  for (const OwnPod& own : pods) {
    if (own.identity.number.attempt != attempt) {
      continue;
    }
    const auto known = newest.try_emplace(own.identity.task, own).first;
    if (known->second.identity.number.incarnation < own.identity.number.incarnation) {
      known->second = own;
    }
  }
  return newest;
}

PodPlacement PlacementIn(const OwnPod& own, WallTime now) {
  PodPlacement placement;
  placement.role = own.identity.task.role;
  placement.index = own.identity.task.index;
  placement.node = own.pod->spec.node_name;
  placement.incarnation = own.identity.number.incarnation;
  placement.since = now;
  placement.pod_uid = SeenMark(*own.pod);
  return placement;
}

// Whether they are all pods that the manifest asks for, each with a node and not on its way out.
bool AreWhole(const std::map<TaskId, OwnPod>& pods, const DecisionBuilder& builder) {
  const std::vector<TaskId> tasks = AllTasks(builder.topology());
  return tasks.size() == pods.size() &&
         std::all_of(tasks.begin(), tasks.end(), [&](const TaskId& task) {
           const auto found = pods.find(task);
           return found != pods.end() && !found->second.pod->is_deleting &&
                  !found->second.pod->spec.node_name.empty();
         });
}

// The highest epoch that a pod tells of.
Epoch EpochTold(const DecisionBuilder& builder) {
  Epoch epoch;
  for (const auto& [pod, report] : builder.observed().reports) {
    epoch = std::max(epoch, report.document.epoch);
  }
  return epoch;
}

// What its programs have seen of that attempt.
Attempt AttemptTold(Attempt attempt, const DecisionBuilder& builder) {
  int64_t relaunches = 0;
  for (const auto& [pod, report] : builder.observed().reports) {
    relaunches = report.document.attempt == attempt
                     ? std::max(relaunches, report.document.relaunches.value_or(0))
                     : relaunches;
  }
  return AttemptOfPrograms(attempt, relaunches);
}

std::string TakeUpFrom(const std::vector<OwnPod>& pods, DecisionBuilder* builder) {
  PlacementStatus* const gang = builder->mutable_placement();
  Epoch* const epoch = &builder->mutable_recovery()->epoch;
  const Attempt attempt = NewestAttempt(pods);
  const std::map<TaskId, OwnPod> newest = NewestOf(attempt, pods);
  *epoch = EpochTold(*builder);
  if (!AreWhole(newest, *builder)) {
    gang->attempt = AttemptTold(attempt, *builder).Next();
    *epoch = epoch->Next();
    return Plural(static_cast<int64_t>(newest.size()), "pod") + " of attempt " +
           std::to_string(attempt.value()) + (newest.size() == 1 ? " is" : " are") +
           " not a complete gang, so the gang restarts as attempt " +
           std::to_string(gang->attempt.value());
  }
  gang->attempt = attempt;
  for (const TaskId& task : AllTasks(builder->topology())) {
    const OwnPod& own = newest.at(task);
    gang->placement.push_back(PlacementIn(own, builder->now()));
    if (!own.pod->spec.pod_group.empty()) {  // successors have none
      gang->pod_group = own.pod->spec.pod_group;
    }
  }
  builder->mutable_lifecycle()->start_time = builder->now();
  return "attempt " + std::to_string(attempt.value()) + " continues with " +
         Plural(static_cast<int64_t>(newest.size()), "pod") + ", each on its node";
}

}  // namespace

void TakeUp(DecisionBuilder* builder) {
  const std::vector<OwnPod> pods = OwnPods(builder->job().metadata, builder->observed());
  const bool is_new = pods.empty() || !builder->status().placement.empty() ||
                      !CheckTopology(builder->topology()).empty();
  if (is_new) {
    builder->Set(
        {ConditionType::kCreated, true, "JobCreated", "the operator has accepted the job"});
    return;
  }
  builder->Set({ConditionType::kCreated,
                true,
                "StatusLost",
                "somebody deleted the status of a job that has pods. Lockstep rebuilt the status "
                "from the pods: " +
                    TakeUpFrom(pods, builder) + ". Earlier restarts, incidents and times are lost"},
               EventType::kWarning);
  if (!builder->status().placement.empty()) {
    builder->SetQuietly({ConditionType::kScheduled,
                         true,
                         "GangTakenUp",
                         "the status was rebuilt from the job's pods"});
  }
}

}  // namespace lockstep::control
