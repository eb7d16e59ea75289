#include <algorithm>
#include <set>
#include <string>

#include "common/contract/environment/topology.h"
#include "operator/api/job/placement.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/testing/fake_world.h"
#include "tests/sim/checks.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/selector.h"

// How jobs may end, and what may be counted against them on the way.
namespace lockstep::control::sim {
namespace {

// A pod that is to be deleted counts as ready no longer than this, in peace.
constexpr std::chrono::seconds kReadyError{15};

// Incidents that count. One whose cause is not known yet may turn out to be free.
int64_t CountedIn(const Json& status) {
  int64_t count = 0;
  for (const Json& incident : status.value("incidents", Json::array())) {
    const bool is_counted = !incident.value("free", false) && TextAt(incident, "cause") != "ended";
    count += is_counted ? incident.value("count", int64_t{1}) : 0;
  }
  return count;
}

const std::string& ReasonOf(const TrainingJob& job) {
  return FindCondition(job.status, ConditionType::kFailed)->reason;
}

}  // namespace

// Whether an operator may take the node for one that does not report.
bool Checks::MaySeemLost(const std::string& node) const {
  const auto unready = unready_at_.find(node);
  return !IsNodeGood(node) ||
         (unready != unready_at_.end() && context_->now - unready->second <= kViewLag);
}

void Checks::OnPodRead(const ObjectPtr& pod) {
  if (pod == nullptr) {
    return;
  }
  if (TextAt(*pod, "status.phase") == "Pending") {
    read_pending_at_[UidOf(*pod)] = context_->now;
  } else {
    read_pending_at_.erase(UidOf(*pod));
  }
}

// Whether an operator may take the pod for one that does not come to run: it did not when the
// server was asked last, and the write that gives it up has been on its way since.
bool Checks::MaySeemPending(const Json& pod) const {
  const auto read = read_pending_at_.find(UidOf(pod));
  return TextAt(pod, "status.phase") == "Pending" ||
         (read != read_pending_at_.end() && context_->now - read->second <= kDecisionError);
}

// Incidents are what happened, not the pods that it cost. One that nothing has happened to, or that
// did not come to run, may be counted for itself where it is given up; of a gang, one.
void Checks::CheckBudget(const TrainingJob& before, const ObjectPtr& after_object) {
  const std::string& uid = before.metadata.uid;
  const TrainingJobStatus& after = jobs_.Of(after_object).status;
  const bool goes_on = before.status.attempt == after.attempt && !HasEnded(after);
  bool may_offer_one = !goes_on;
  for (const PodPlacement& placement : before.status.placement) {
    if (!HasSuffered(placement.pod_uid)) {
      continue;
    }
    const PodPlacement* const now = FindPlacement(after, TaskOf(placement));
    const bool is_replaced = goes_on && now != nullptr && placement.incarnation < now->incarnation;
    if ((is_replaced || !goes_on) && !placement.pod_uid.empty()) {
      if (MaySeemLost(placement.node)) {
        casualties_.NoteWithNode(placement.pod_uid, placement.node);
      }
      casualties_.OfferLate(uid, placement.pod_uid, context_->now);
    }
    casualties_.OfferPod(uid, placement.pod_uid);
    const std::string name = PodName(before.metadata.name,
                                     {placement.role, static_cast<int>(placement.index)},
                                     {before.status.attempt, placement.incarnation});
    const ObjectPtr pod = PodAt(before, placement);
    const bool is_pending = pod != nullptr && MaySeemPending(*pod);
    const bool stands_alone = !casualties_.IsHit(placement.pod_uid) || is_pending;
    if (stands_alone && (is_replaced || may_offer_one)) {
      casualties_.OfferName(uid, name);
      may_offer_one = false;
    }
  }
  const int64_t counted = CountedIn(after_object->value("status", Json::object()));
  const auto offered = static_cast<int64_t>(casualties_.OfferedTo(uid));
  Require(counted <= offered,
          NameOf(before) + ": " + std::to_string(counted) + " incidents are counted, " +
              std::to_string(offered) + " have happened");
  Require(counted <= before.spec.run_policy.backoff_limit,
          NameOf(before) + ": the budget was exceeded");
}

void Checks::CheckEnds(const TrainingJob& before, const ObjectPtr& after_object) {
  const TrainingJob& after = jobs_.Of(after_object);
  for (const ConditionType type : {ConditionType::kSucceeded, ConditionType::kFailed}) {
    Require(!IsTrue(before.status, type) || IsTrue(after.status, type),
            NameOf(after) + ": an end was taken back");
  }
  const bool has_succeeded = IsTrue(after.status, ConditionType::kSucceeded);
  const bool has_failed = IsTrue(after.status, ConditionType::kFailed);
  Require(!has_succeeded || !has_failed, NameOf(after) + ": succeeded and failed");
  if (has_succeeded && !HasEnded(before.status)) {
    CheckSuccess(after);
  } else if (has_failed && !HasEnded(before.status)) {
    CheckFailure(after_object);
  }
}

// A success is work that was done.
void Checks::CheckSuccess(const TrainingJob& job) {
  const bool needs_all = job.spec.success_policy == SuccessPolicy::kAllWorkers;
  const auto count = static_cast<int>(needs_all ? job.spec.roles[0].replicas : 1);
  for (int rank = 0; rank < count; ++rank) {
    Require(
        processes_->HasFinished(job.metadata.uid, job.status.attempt, rank),
        NameOf(job) + ": succeeded, and rank " + std::to_string(rank) + " has not done its work");
  }
}

// A job fails for something that has happened to it.
void Checks::CheckFailure(const ObjectPtr& object) {
  const TrainingJob& job = jobs_.Of(object);
  const std::string& uid = job.metadata.uid;
  const std::string& reason = ReasonOf(job);
  const RunPolicy& policy = job.spec.run_policy;
  bool is_explained = false;
  if (reason == "BackoffLimitExceeded") {
    is_explained = static_cast<int64_t>(casualties_.OfferedTo(uid)) > policy.backoff_limit;
  } else if (reason == "PodFailed") {
    is_explained = casualties_.HadPermanentEnd(uid);
  } else if (reason == "DeadlineExceeded") {
    const auto since = placed_since_.find(uid);
    is_explained = policy.active_deadline.has_value() && since != placed_since_.end() &&
                   context_->now - since->second + kDecisionError >= *policy.active_deadline;
    is_explained = is_explained || WasStoppedByQueue(*object);
  } else if (reason == "SchedulingTimeout") {
    const auto since = waiting_since_.find(uid);
    const auto& timeout = job.spec.scheduling.timeout;
    is_explained = timeout.has_value() && since != waiting_since_.end() &&
                   context_->now - since->second + kDecisionError >= *timeout;
  }
  Require(is_explained,
          NameOf(job) + ": failed, and nothing that happened explains it: " + reason + ": " +
              MessageOf(job.status, ConditionType::kFailed));
}

void Checks::NotePlacing(const TrainingJob& job) {
  if (IsTrue(job.status, ConditionType::kSuspended) ||
      IsTrue(job.status, ConditionType::kRunning)) {
    waiting_since_.erase(job.metadata.uid);
  } else {
    waiting_since_.try_emplace(job.metadata.uid, context_->now);
  }
  if (IsTrue(job.status, ConditionType::kSuspended)) {
    if (const auto placed = placed_since_.find(job.metadata.uid); placed != placed_since_.end()) {
      placed_before_[job.metadata.uid] += context_->now - placed->second;
      placed_since_.erase(placed);
    }
    holding_.erase(job.metadata.uid);
  } else if (!job.status.placement.empty()) {
    placed_since_.try_emplace(job.metadata.uid, context_->now);
  }
}

// What a newer version has written stays.
void Checks::CheckFuture(const Json& before, const Json& after) {
  const Json was = before.value("status", Json::object());
  const Json is = after.value("status", Json::object());
  Require(was.value("fromTheFuture", Json()) == is.value("fromTheFuture", Json()),
          "a field of the status that a newer version wrote was dropped");
  const auto has_condition = [](const Json& status) {
    const Json conditions = status.value("conditions", Json::array());
    return std::any_of(conditions.begin(), conditions.end(), [](const Json& condition) {
      return TextAt(condition, "type") == "FromTheFuture";
    });
  };
  Require(!has_condition(was) || has_condition(is),
          "a condition that a newer version wrote was dropped");
}

// Pods that are about to go, or gone, are not ready; the count of a job that nobody could read is
// written once it is mended.
void Checks::CheckReady(const Json& job, const std::vector<ObjectPtr>& pods) {
  std::set<std::string> staying;
  auto& leaving_since = leaving_since_[UidOf(job)];
  for (const ObjectPtr& pod : pods) {
    leaving_since.try_emplace(UidOf(*pod));
    if (!IsDeleting(*pod)) {
      staying.insert(UidOf(*pod));
    }
  }
  int64_t ready_max = 0;  // one that has ended may not have been heard of yet
  for (auto& [uid, since] : leaving_since) {
    if (!since.has_value() && staying.count(uid) == 0) {
      since = context_->now;
    }
    ready_max += !since.has_value() || context_->now - *since < kReadyError;
  }
  const auto unreadable = unreadable_at_.find(UidOf(job));
  if (context_->has_faults || context_->now - context_->peace_since < 4 * kReadyError ||
      (unreadable != unreadable_at_.end() && context_->now - unreadable->second < kReadyError)) {
    return;
  }
  int64_t active = 0;
  const Json status = job.value("status", Json::object());
  for (const Json& role : status.value("roles", Json::array())) {
    active += role.value("active", int64_t{0});
  }
  Require(active <= ready_max,
          TextAt(job, "metadata.name") + ": " + std::to_string(active) +
              " pods count as active, and all but " + std::to_string(ready_max) +
              " are about to go, or gone");
}

}  // namespace lockstep::control::sim
