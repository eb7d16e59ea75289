#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "operator/api/conditions.h"
#include "operator/reconcile/gang/departure.h"
#include "tests/sim/checks.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/selector.h"

// Whose turn it is: a gang that pauses keeps its place in the queue.
namespace lockstep::control::sim {
namespace {

bool IsOlder(const ObjectPtr& a, const ObjectPtr& b) {
  const auto age = [](const ObjectPtr& job) {
    return TextAt(*job, "metadata.creationTimestamp") + " " + TextAt(*job, "metadata.name");
  };
  return age(a) < age(b);
}

int64_t CountThatFits(const Amounts& free, const Amounts& request) {
  int64_t count = std::numeric_limits<int64_t>::max();
  for (const auto& [name, amount] : request) {
    if (amount > 0) {
      count = std::min(count, std::max<int64_t>(0, AmountOf(free, name)) / amount);
    }
  }
  return count;
}

bool Fits(const std::map<std::string, Amounts>& room, const TrainingJob& job, const Json& object) {
  const Amounts request = RequestsOfRole(object, Role::kWorker);
  const int64_t wanted = job.spec.roles[0].replicas;
  int64_t count = 0;
  for (const auto& [node, free] : room) {
    count += std::min(wanted, CountThatFits(free, request));
  }
  return count >= wanted;
}

// When the job is stopped, its pods' grace aside; null: never.
std::optional<WallTime> StopOf(const TrainingJob& job) {
  const std::optional<std::chrono::seconds>& limit = job.spec.run_policy.active_deadline;
  return limit.has_value() && job.status.start_time.has_value()
             ? std::optional(*job.status.start_time + *limit)
             : std::nullopt;
}

void Take(const TrainingJob& job, const Json& object, std::map<std::string, Amounts>* room) {
  for (const PodPlacement& placement : job.status.placement) {
    const auto node = room->find(placement.node);
    if (placement.is_completed || node == room->end()) {
      continue;
    }
    for (const auto& [name, amount] : RequestsOfRole(object, placement.role)) {
      node->second[name] -= amount;
    }
  }
}

}  // namespace

// Notes when nodes and pods of others have changed last.
void Checks::NoteCluster() {
  std::string seen;
  for (const auto& [key, node] : server_->store().Of(kube::kNodes).objects) {
    seen += TextAt(*node, "metadata.resourceVersion") + " ";
    if (!IsNodeReady(*node)) {
      unready_at_[key.name] = context_->now;
    }
  }
  for (const auto& [key, pod] : server_->store().Of(kube::kPods).objects) {
    if (JobUidOf(*pod).empty() && !HasPodEnded(*pod)) {
      seen += UidOf(*pod) + "@" + TextAt(*pod, "spec.nodeName") + " ";
    }
  }
  if (seen != cluster_seen_) {
    cluster_seen_ = seen;
    cluster_since_ = context_->now;
  }
}

// What nodes have that take pods, beside the pods of others.
std::map<std::string, Amounts> Checks::RoomForJobs() {
  std::map<std::string, Amounts> room;
  for (const auto& [key, node] : server_->store().Of(kube::kNodes).objects) {
    const bool is_open = IsNodeReady(*node) && !node->at("spec").value("unschedulable", false) &&
                         !node->at("spec").contains("taints");
    if (is_open) {
      room[key.name] = AllocatableOf(*node);
    }
  }
  for (const auto& [key, pod] : server_->store().Of(kube::kPods).objects) {
    const auto node = room.find(NodeWantedBy(*pod));
    if (JobUidOf(*pod).empty() && !HasPodEnded(*pod) && node != room.end()) {
      for (const auto& [name, amount] : RequestsOfPod(*pod)) {
        node->second[name] -= amount;
      }
    }
  }
  return room;
}

// The nodes as they will be when everything older than the job has ended: pods of others and
// younger jobs stay.
std::map<std::string, Amounts> Checks::RoomBeside(const ObjectPtr& older) {
  std::map<std::string, Amounts> room = RoomForJobs();
  for (const auto& [key, object] : server_->store().Of(kube::kTrainingJobs).objects) {
    const TrainingJob& job = jobs_.Of(object);
    if (UidOf(*object) != UidOf(*older) && IsOlder(older, object) && !HasEnded(job.status)) {
      Take(job, *object, &room);
    }
  }
  return room;
}

// Whether the newly placed gang leaves the older one what it needs.
bool Checks::MayGoFirst(const ObjectPtr& older, const ObjectPtr& placed) {
  const TrainingJob& job = jobs_.Of(older);
  // With the placed gang's: its status has been stored.
  std::map<std::string, Amounts> beside = RoomBeside(older);
  std::map<std::string, Amounts> before = beside;
  for (const PodPlacement& placement : jobs_.Of(placed).status.placement) {
    if (const auto node = before.find(placement.node); node != before.end()) {
      AddTo(&node->second, RequestsOfRole(*placed, placement.role));
    }
  }
  return !Fits(before, job, *older) || Fits(beside, job, *older);
}

// Whether the newly placed gang is stopped before the older one can have the room that it needs, if
// those that run are stopped no sooner than they say.
bool Checks::EndsBefore(const ObjectPtr& older, const ObjectPtr& placed) {
  const std::optional<WallTime> end = StopOf(jobs_.Of(placed));
  if (!end.has_value()) {
    return false;
  }
  std::map<std::string, Amounts> room = RoomForJobs();
  for (const auto& [key, object] : server_->store().Of(kube::kTrainingJobs).objects) {
    const TrainingJob& job = jobs_.Of(object);
    const std::optional<WallTime> stop = StopOf(job);
    const bool is_there = !stop.has_value() || *stop >= *end - kCalendarError;
    if (UidOf(*object) != UidOf(*placed) && !HasEnded(job.status) && is_there) {
      Take(job, *object, &room);
    }
  }
  return !Fits(room, jobs_.Of(older), *older);
}

void Checks::CheckTurns(const ObjectPtr& before_object, const ObjectPtr& after_object) {
  const bool is_placed = jobs_.Of(before_object).status.placement.empty() &&
                         !jobs_.Of(after_object).status.placement.empty();
  if (!is_placed || context_->has_shares || context_->has_faults ||
      context_->now - cluster_since_ < kViewLag ||
      context_->now - context_->peace_since < 2 * kViewLag || server_->admission.raised_count > 0) {
    return;
  }
  for (const auto& [key, older] : server_->store().Of(kube::kTrainingJobs).objects) {
    const TrainingJob& job = jobs_.Of(older);
    const TrainingJobStatus& status = job.status;
    const bool pauses = !HasEnded(status) && !IsDeleting(*older) && status.placement.empty() &&
                        status.rollbacks == 0 && status.quick_restarts > 0 &&
                        status.retry_at.has_value() && !job.spec.run_policy.suspend;
    const Condition* const scheduled = FindCondition(status, ConditionType::kScheduled);
    const bool is_stuck = scheduled != nullptr && scheduled->reason == kReasonPodStuck;
    if (pauses && !is_stuck && IsOlder(older, after_object)) {
      Require(MayGoFirst(older, after_object) || EndsBefore(older, after_object),
              NameOf(jobs_.Of(after_object)) + " took the place of " + job.metadata.name +
                  ", which is older and pauses");
    }
  }
}

}  // namespace lockstep::control::sim
