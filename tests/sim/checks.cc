#include "tests/sim/checks.h"

#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "operator/api/decode_job.h"
#include "operator/api/job/placement.h"
#include "operator/api/status/conditions.h"
#include "operator/api/status/derived_status.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/testing/fake_world.h"
#include "tests/sim/selector.h"

namespace lockstep::control::sim {
namespace {

// A gang of which some pods are bound and some are not must be whole or rolled back by then, and of
// one that was given up nothing be left. Choice: the longest patience with a pod that is not bound,
// a minute, and room for outages of everything on the way.
constexpr Duration kPartialGangMax = std::chrono::minutes(3);

std::string Whole(const Amounts& amounts, const std::string& resource) {
  return std::to_string(AmountOf(amounts, resource) / 1000);
}

// What the manifest said when the pod was made.
std::string EditionOf(const Json& pod) {
  for (const Json& variable : pod.at("spec").at("containers").at(0).at("env")) {
    if (TextAt(variable, "name") == "EDITION") {
      return TextAt(variable, "value");
    }
  }
  return "";
}

}  // namespace

Labels LabelsOf(const Json& pod) {
  Labels labels;
  const Json& metadata = pod.at("metadata");
  if (const auto texts = metadata.find("labels"); texts != metadata.end()) {
    for (const auto& [name, text] : texts->items()) {
      labels[name] = text.get<std::string>();
    }
  }
  return labels;
}

// What the pods of a role ask for, by its manifest.
Amounts RequestsOfRole(const Json& job, Role name) {
  for (const Json& role : job.at("spec").at("roles")) {
    if (TextAt(role, "name") != RoleName(name)) {
      continue;
    }
    Amounts amounts;
    if (const auto pod = role.find("template"); pod != role.end() && pod->contains("spec")) {
      amounts = RequestsOfSpec(pod->at("spec"));
    }
    amounts["nvidia.com/gpu"] = role.value("gpus", int64_t{0}) * 1000;
    return amounts;
  }
  return {};
}

std::string NameOf(const TrainingJob& job) {
  return "job " + job.metadata.name + " (" + job.metadata.uid + ")";
}

TrainingJob DecodeJob(const Json& object) {
  Json document = WithoutUnreadable(object);
  document["apiVersion"] = kApiVersion;
  document["kind"] = kTrainingJobKind;
  DecodedJob decoded = DecodeTrainingJob(document);
  std::string problems;
  for (const Error& error : decoded.errors) {
    problems += error.ToString() + "; ";
  }
  LOCKSTEP_CHECK(decoded.ok(), problems);
  return std::move(decoded.job);
}

void Checks::Require(bool holds, const std::string& what) {
  if (!holds && problem_.empty()) {
    problem_ = what;
    context_->Tell("BROKEN: " + what);
    for (const auto& resource : {kube::kNodes, kube::kTrainingQueues, kube::kTrainingJobs}) {
      for (const auto& [key, object] : server_->store().Of(resource).objects) {
        context_->Tell("  there was " + object->dump());
      }
    }
  }
}

// Whether the pod has met something that a restart may answer.
bool Checks::HasSuffered(const std::string& pod_uid) const {
  if (pod_uid.empty() || casualties_.IsHit(pod_uid)) {
    return true;
  }
  for (const auto& [key, pod] : server_->store().Of(kube::kPods).objects) {
    if (UidOf(*pod) == pod_uid) {
      // One that does not come to run may be tried elsewhere.
      const std::string phase = TextAt(*pod, "status.phase");
      return IsDeleting(*pod) || phase == "Failed" || MaySeemPending(*pod) ||
             !IsNodeGood(TextAt(*pod, "spec.nodeName"));
    }
  }
  return true;  // it is gone
}

void Checks::OnStatusWrite(const ObjectPtr& before_object, const ObjectPtr& after_object) {
  ++status_writes_;
  const TrainingJob& before = jobs_.Of(before_object);
  const TrainingJob& after = jobs_.Of(after_object);
  Require(!(before.status == after.status),
          NameOf(after) + ": a status was written that says nothing new");
  CheckProgress(before, after);
  CheckCounts(before, after);
  CheckPauses(before, after);
  CheckBudget(before, after_object);
  NoteGivenUp(before, after);
  NotePlacing(after);
  CheckEnds(before, after_object);
  CheckFuture(*before_object, *after_object);
  CheckQueue(*after_object);
  CheckTurns(before_object, after_object);
  CheckPreemption(before_object, after_object);
  CheckPlan(before, after);
  CheckServedQueue(before, after_object);
  CheckServer(before, after_object);
  CheckFairTurn(before, after_object);
  if (capacity_.OnStatusWrite(*before_object, *after_object)) {
    CheckAsksForRoom(*after_object);
  }
}

// What belongs to a job is never made another's: it may be removed for the next job of its name. A
// write that was decided before the operator could know of that next job does no harm.
void Checks::OnWrite(const ObjectPtr& before, const ObjectPtr& after) {
  const auto owners = [](const Json& object) {
    return object.at("metadata").value("ownerReferences", Json::array());
  };
  const Json references = owners(*before);
  const std::string name = TextAt(*before, "metadata.name");
  const bool is_ours = std::any_of(references.begin(), references.end(), [](const Json& reference) {
    return reference.value("controller", false) && TextAt(reference, "kind") == kTrainingJobKind;
  });
  Require(is_ours, "an object of somebody else was written: " + name);
  Require(after == nullptr || IsDeleting(*after) || owners(*after) == references,
          "what belongs to one job was made another's: " + name);
  capacity_.OnWrite(*before, after);
}

void Checks::CheckProgress(const TrainingJob& before, const TrainingJob& after) {
  const std::string name = NameOf(after);
  const TrainingJobStatus& was = before.status;
  const TrainingJobStatus& is = after.status;
  Require(was.attempt <= is.attempt, name + ": the attempt decreased");
  Require(was.epoch <= is.epoch, name + ": the epoch decreased");
  Require(was.control_counter <= is.control_counter, name + ": the control counter decreased");
  for (const PodPlacement& placement : is.placement) {
    const PodPlacement* const old = FindPlacement(was, TaskOf(placement));
    if (old != nullptr && was.attempt == is.attempt) {
      Require(old->incarnation <= placement.incarnation, name + ": an incarnation decreased");
      Require(old->incarnation < placement.incarnation || old->node == placement.node ||
                  old->node.empty(),
              name + ": a pod was moved under its own name");
    }
  }
  Require(is.placement.empty() || was.placement.empty() || was.attempt != is.attempt ||
              is.placement.size() == was.placement.size(),
          name + ": half a gang is placed");
}

// Every restart is counted in the very write that decides it, and only for what has happened.
void Checks::CheckCounts(const TrainingJob& before, const TrainingJob& after) {
  const std::string name = NameOf(after);
  const auto total = [](const TrainingJobStatus& status) { return TotalRestarts(status); };
  const int64_t counted = total(after.status) - total(before.status);
  int64_t replaced = 0;
  bool has_casualty = false;
  for (const PodPlacement& placement : before.status.placement) {
    has_casualty = has_casualty || HasSuffered(placement.pod_uid);
    const PodPlacement* const now = FindPlacement(after.status, TaskOf(placement));
    if (now == nullptr || before.status.attempt != after.status.attempt) {
      continue;
    }
    const int64_t grown = now->incarnation.value() - placement.incarnation.value();
    replaced += grown;
    Require(grown == 0 || HasSuffered(placement.pod_uid),
            name + ": " + std::string(RoleName(placement.role)) + "-" +
                std::to_string(placement.index) +
                " was replaced though nothing had happened to it: " +
                MessageOf(after.status, ConditionType::kRestarting));
  }
  restarts_ += counted;
  const bool is_new_attempt = before.status.attempt < after.status.attempt;
  rollbacks_ += after.status.rollbacks > before.status.rollbacks ? 1 : 0;
  // What a wiped status learns of its pods is none, and one goes on later where nobody led.
  const bool is_relaunch = after.status.relaunch.since.has_value() &&
                           before.status.relaunch.count != after.status.relaunch.count;
  if (!is_new_attempt && is_relaunch) {
    Require(counted == replaced + 1, name + ": a relaunch was not counted once");
    Require(has_casualty, name + ": the gang was relaunched though nothing had happened to it");
  } else if (!is_new_attempt) {
    Require(counted == replaced,
            name + ": " + std::to_string(counted) + " restarts counted for " +
                std::to_string(replaced) + " replacements");
  } else {
    Require(counted <= 1, name + ": one new attempt, counted more than once");
    Require(counted == 0 || has_casualty || before.status.placement.empty(),
            name + ": the gang was restarted though nothing had happened to it");
  }
}

// A gang that was rolled back rests.
void Checks::CheckPauses(const TrainingJob& before, const TrainingJob& after) {
  const TrainingJobStatus& was = before.status;
  const TrainingJobStatus& is = after.status;
  Require(is.rollbacks <= was.rollbacks || (is.retry_at.has_value() && is.placement.empty()),
          NameOf(after) + ": rolled back without a pause");
  const bool is_placed = was.placement.empty() && !is.placement.empty();
  Require(!is_placed || !was.retry_at.has_value() ||
              was.observed_generation != is.observed_generation ||
              *was.retry_at <= context_->ServerTime() + kCalendarError,
          NameOf(after) + ": placed in the middle of its pause");
}

// Whether the place counts: where nobody could read the manifest, a pod that has ended, or was
// not made, has no successor yet, and its room is free.
bool Checks::MayRun(const ObjectPtr& object, const PodPlacement& placement) {
  if (IsUnreadable(*object)) {
    unreadable_at_[UidOf(*object)] = context_->now;
  }
  if (!unreadable_at_.contains(UidOf(*object))) {
    return true;
  }
  const ObjectPtr pod = PodAt(jobs_.Of(object), placement);
  return pod != nullptr && JobUidOf(*pod) == UidOf(*object) && !HasPodEnded(*pod);
}

// A new place is not promised to two.
void Checks::CheckPlan(const TrainingJob& before, const TrainingJob& after) {
  std::map<std::string, Amounts> promised;
  std::set<std::string> new_nodes;
  for (const PodPlacement& placement : after.status.placement) {
    const PodPlacement* const old = FindPlacement(before.status, TaskOf(placement));
    if (old == nullptr || before.status.attempt != after.status.attempt ||
        old->node != placement.node) {
      new_nodes.insert(placement.node);
    }
  }
  if (new_nodes.empty() || HasEnded(after.status)) {
    return;
  }
  for (const auto& [key, object] : server_->store().Of(kube::kTrainingJobs).objects) {
    const TrainingJob& job = jobs_.Of(object);
    if (HasEnded(job.status)) {
      continue;
    }
    for (const PodPlacement& placement : job.status.placement) {
      if (!placement.is_completed && MayRun(object, placement)) {
        AddTo(&promised[placement.node], RequestsOfRole(*object, placement.role));
      }
    }
  }
  for (const std::string& name : new_nodes) {
    const ObjectPtr node = server_->store().Get(kube::kNodes, {"", name});
    if (node == nullptr) {
      continue;
    }
    const Amounts allocatable = AllocatableOf(*node);
    const std::string resource = Shortage(allocatable, {}, promised[name]);
    Require(resource.empty(),
            NameOf(after) + ": " + Whole(promised[name], resource) + " " + resource + " of " +
                name + " are promised, it has " + Whole(allocatable, resource));
  }
}

bool Checks::IsNodeGood(const std::string& name) const {
  const ObjectPtr node = server_->store().Get(kube::kNodes, {"", name});
  return node != nullptr && IsNodeReady(*node);
}

// A gang of the built-in trainer is placed anew beside pods that were asked to go on nodes that do
// not report: whatever they still do is refused by their epoch. One that comes back with its node
// is ended by its kubelet, and is no second attempt.
void Checks::NoteGivenUp(const TrainingJob& before, const TrainingJob& after) {
  if (!after.spec.training.has_value() || !before.status.placement.empty() ||
      after.status.placement.empty()) {
    return;
  }
  for (const auto& [key, pod] : server_->store().Of(kube::kPods).objects) {
    if (JobUidOf(*pod) == after.metadata.uid && IsDeleting(*pod) &&
        !IsNodeGood(TextAt(*pod, "spec.nodeName"))) {
      given_up_.insert(UidOf(*pod));
    }
  }
}

void Checks::CheckWorld() {
  // Nothing is written, nothing is broken, but for what lasts too long.
  if (server_->store().version() == checked_version_ &&
      context_->now - checked_at_ < std::chrono::minutes(1)) {
    return;
  }
  checked_version_ = server_->store().version();
  checked_at_ = context_->now;
  for (const auto& [key, object] : server_->store().Of(kube::kTrainingJobs).objects) {
    if (context_->has_bad_users && IsUnreadable(*object)) {
      unreadable_at_[UidOf(*object)] = context_->now;
    }
  }
  NoteCluster();
  NoteShares();
  NoteLimits();
  for (const std::string& given : nodes_->given_twice()) {
    Require(false, "given twice: " + given);
  }
  for (const std::string& pair : processes_->mixed) {
    Require(false, "a relaunch is mixed with what was before: " + pair);
  }
  std::map<std::string, std::set<int>> used;
  for (const auto& [uid, use] : nodes_->DevicesInUse()) {
    for (const int device : use.devices) {
      Require(used[use.node].insert(device).second, "a device is in two pods of " + use.node);
    }
  }
  for (const auto& [key, object] : server_->store().Of(kube::kTrainingJobs).objects) {
    if (!IsDeleting(*object)) {
      CheckPods(object);
      CheckHolding(*object);
      CheckLimitEndsPods(*object);
      CheckDeadGiveWay(object);
      CheckReasons(*object);
      CheckRackHasNoRoom(*object);
    }
  }
  CheckQuotas();
  CheckStarvation();
  capacity_.CheckWorld();
}

void Checks::CheckPods(const ObjectPtr& job_object) {
  const TrainingJob& job = jobs_.Of(job_object);
  std::vector<ObjectPtr> own;
  std::set<std::string> editions;
  std::map<TaskId, int> standing;
  std::set<Attempt> attempts;
  std::size_t bound = 0;
  std::size_t left_over = 0;
  for (const auto& [key, object] : server_->store().Of(kube::kPods).objects) {
    if (key.namespace_name != job.metadata.namespace_name) {
      continue;
    }
    if (JobUidOf(*object) != job.metadata.uid) {
      continue;  // before its labels are read: most pods belong to other jobs
    }
    const auto identity = ParsePodLabels(LabelsOf(*object));
    if (!identity.has_value() || identity->job_uid != job.metadata.uid) {
      continue;
    }
    const std::string name = NameOf(job) + ": " + key.name;
    own.push_back(object);
    Require(identity->number.attempt <= job.status.attempt, name + " is of a later attempt");
    if (identity->number.attempt == job.status.attempt) {
      editions.insert(EditionOf(*object));
      const PodPlacement* const placement = FindPlacement(job.status, identity->task);
      Require(placement != nullptr && identity->number.incarnation <= placement->incarnation,
              name + " stands where the status knows of nothing");
      const bool is_bound = !TextAt(*object, "spec.nodeName").empty();
      bound +=
          placement != nullptr && is_bound && identity->number.incarnation == placement->incarnation
              ? 1
              : 0;
    }
    // One that is deleted before it was bound never starts, whoever holds its object back.
    const bool is_dead =
        HasPodEnded(*object) || (IsDeleting(*object) && TextAt(*object, "spec.nodeName").empty());
    if (!is_dead && IsNodeGood(NodeWantedBy(*object))) {
      if (given_up_.count(UidOf(*object)) == 0) {
        attempts.insert(identity->number.attempt);
      }
      // One whose process has ended, or went with its node, may be succeeded before its kubelet
      // tells.
      const Processes::Process* const process = processes_->Find(UidOf(*object));
      const bool has_process_ended = process != nullptr
                                         ? process->end.has_value()
                                         : TextAt(*object, "status.phase") == "Running";
      standing[identity->task] += IsDeleting(*object) || has_process_ended ? 0 : 1;
      const bool is_stuck = IsDeleting(*object) && nodes_->NeverEnds(NodeWantedBy(*object));
      left_over += identity->number.attempt < job.status.attempt && !is_stuck ? 1 : 0;
    }
  }
  Require(attempts.size() <= 1, NameOf(job) + ": pods of two attempts live side by side");
  for (const auto& [task, count] : standing) {
    Require(count <= 1, NameOf(job) + ": " + TaskName(task) + " has two pods");
  }
  Require(editions.size() <= 1, NameOf(job) + ": pods of one attempt were made from two manifests");
  if (IsUnreadable(*job_object)) {
    partial_since_.erase(job.metadata.uid);  // it is left as it is
  } else {
    CheckPartialGang(job, bound, left_over);
  }
  CheckReady(*job_object, own);
}

void Checks::CheckPartialGang(const TrainingJob& job, std::size_t bound, std::size_t left_over) {
  const bool is_partly_bound = !HasEnded(job.status) && !job.status.has_run && bound > 0 &&
                               bound < job.status.placement.size() &&
                               std::none_of(job.status.placement.begin(),
                                            job.status.placement.end(),
                                            [](const auto& one) { return one.is_completed; });
  if (!is_partly_bound && left_over == 0) {
    partial_since_.erase(job.metadata.uid);
    return;
  }
  const auto [since, is_new] = partial_since_.try_emplace(job.metadata.uid, context_->now);
  Require(context_->now - since->second <= kPartialGangMax,
          NameOf(job) + ": a gang is partly placed for too long");
}

}  // namespace lockstep::control::sim
