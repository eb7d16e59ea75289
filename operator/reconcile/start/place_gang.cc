#include "operator/reconcile/start/place_gang.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "operator/api/status/conditions.h"
#include "operator/capacity/ask_capacity.h"
#include "operator/capacity/capacity_sources.h"
#include "operator/capacity/native_binding.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/lifecycle/deadline.h"
#include "operator/reconcile/pods/admission_change.h"
#include "operator/reconcile/start/old_pods.h"

namespace lockstep::control {

namespace {

// Limits of time do not count what the job waited while others went first.
void NoteStart(DecisionBuilder* builder) {
  std::optional<WallTime>* const start = &builder->mutable_lifecycle()->start_time;
  WaitingStatus* const waiting = builder->mutable_waiting();
  if (waiting->preempted_at.has_value() && start->has_value()) {
    **start += builder->now() - *waiting->preempted_at;
    waiting->waiting_since = builder->now();
  }
  waiting->preempted_at.reset();
  *start = start->value_or(builder->now());
}

// The need that is not met, as a clause without figures: "needs # GPUs" of "needs 5 GPUs, 3 free".
std::string NeedOf(const std::string& shortfall) {
  std::string need;
  for (const char c : shortfall.substr(0, shortfall.find_first_of(",;"))) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit) {
      need += c;
    } else if (need.empty() || need.back() != '#') {
      need += '#';
    }
  }
  return need;
}

// "; of that the cluster added ...": what the template does not say, and how it is asked anew.
std::string AddedText(const DecisionBuilder& builder) {
  const std::string amounts = DescribeRaised(builder.status());
  return amounts.empty() ? ""
                         : "; a LimitRange or a webhook raised the requests of earlier pods above "
                           "the template's (" +
                               amounts +
                               "). To have the requests checked again, edit the spec, or suspend "
                               "and resume the job";
}

// Of the condition Scheduled, and of what is told in events.
std::string ReasonOf(Constraint constraint) {
  switch (constraint) {
    case Constraint::kQueue:
      return "WaitsInQueue";
    case Constraint::kQuota:
      return "WaitsForQuota";
    case Constraint::kRound:
      return "WaitsForRound";
    case Constraint::kPreemption:
      return "WaitsForOthersToGo";
    case Constraint::kPriorityClass:
      return "NoPriorityClass";
    case Constraint::kNamespace:
      return "NamespaceNotAllowed";
    default:
      return "Unschedulable";
  }
}

// Who comes first in the job's queue.
std::string_view FirstComers(QueueOrder order) {
  switch (order) {
    case QueueOrder::kPriority:
      return "jobs of higher priority come first, then older jobs";
    case QueueOrder::kFairShare:
      return "jobs of namespaces that use less come first, then older jobs";
    case QueueOrder::kFifo:
      break;
  }
  return "older jobs come first";
}

// Sets the condition, which always says how things stand, and tells people in events what they are
// to know of that: a shortfall changes with every pod that comes or goes, and is told again when
// another need is not met; of a queue it is not told who is ahead, as that changes too, and of
// gangs that go for this one not which are left. The next round is a matter of moments: nobody is
// told. `why`: of events; `asked`: what is asked of autoscalers, of the condition alone, as it
// tells of itself in events.
void SayWhyItWaits(const Unschedulable& refusal,
                   const std::string& why,
                   const std::string& asked,
                   DecisionBuilder* builder) {
  const bool is_queued = refusal.constraint == Constraint::kQueue;
  const bool is_momentary = refusal.constraint == Constraint::kRound;
  const std::string reason = ReasonOf(refusal.constraint);
  const Condition* const scheduled = FindCondition(builder->status(), ConditionType::kScheduled);
  const bool was_so = scheduled != nullptr && !scheduled->is_true && scheduled->reason == reason;
  const std::string before = was_so ? scheduled->message : "";
  builder->SetQuietly({ConditionType::kScheduled, false, reason, why + asked});
  if (is_queued && !was_so) {
    builder->Say(EventType::kNormal,
                 reason,
                 std::string(FirstComers(builder->observed().queue_order)) +
                     "; the condition Scheduled names the job ahead");
  } else if (refusal.constraint == Constraint::kPreemption) {
    if (!was_so) {
      builder->Say(EventType::kNormal, reason, why);
    }
  } else if (!is_queued && !is_momentary && NeedOf(before) != NeedOf(refusal.shortfall)) {
    builder->Say(EventType::kWarning, reason, why);
  }
}

void RefuseGang(const Unschedulable& refusal, DecisionBuilder* builder) {
  if (builder->observed().is_one_machine) {
    SayWhyItWaits(refusal, refusal.shortfall, /*asked=*/"", builder);
    builder->Fail("Unschedulable", refusal.shortfall);
    return;
  }
  const bool is_about_others =
      refusal.constraint == Constraint::kQueue || refusal.constraint == Constraint::kRound;
  const std::string why = refusal.shortfall + (is_about_others ? "" : AddedText(*builder));
  if (!HasWaitedTooLong(why + WhatWasAsked(refusal, *builder), builder)) {
    SayWhyItWaits(refusal, why, AskForCapacity(refusal, builder), builder);
  }
}

// Whether a job without a place may look for one now.
bool MayBePlaced(const GangView& view, DecisionBuilder* builder) {
  if (WaitsForOldPods(view, builder)) {
    HasWaitedTooLong("pods of an earlier attempt have not ended", builder);
    return false;  // their ends come as news
  }
  if (WaitsForLeftOvers(builder)) {
    HasWaitedTooLong("pods of an earlier job with this name still exist", builder);
    return false;
  }
  if (WaitsForDisowned(builder)) {
    HasWaitedTooLong("a pod of an earlier attempt still runs and no longer belongs to the job",
                     builder);
    return false;
  }
  const std::optional<WallTime> retry_at = builder->status().retry_at;
  if (retry_at.has_value() && builder->now() < *retry_at) {
    const Condition* const why = FindCondition(builder->status(), ConditionType::kScheduled);
    if (!HasWaitedTooLong(why == nullptr ? "" : why->message, builder)) {
      builder->WakeAt(*retry_at);
    }
    return false;
  }
  builder->mutable_waiting()->retry_at.reset();
  if (builder->observed().service == ServiceState::kForeign) {
    builder->HoldBack("ServiceNameTaken",
                      "the service " + builder->job().metadata.name +
                          ", which the pods need to find each other, does not belong to this job");
    return false;
  }
  return true;
}

// What a round would say if no other job were there.
PlanResult PlanAlone(const GangView& view, const DecisionBuilder& builder) {
  Snapshot snapshot = SnapshotOf(builder.observed(), view);
  MarkSuspects(builder.status(), builder.now(), &snapshot);
  return PlanGang(snapshot, GangOf(builder.job(), builder.topology()));
}

// The node of each task; empty where the plan is not for this gang: the job has changed since.
std::map<TaskId, std::string> NodesOf(const Plan& plan, const JobTopology& topology) {
  std::map<TaskId, std::string> nodes;
  for (const TaskId& task : AllTasks(topology)) {
    const auto found = plan.node_by_pod.find(TaskName(task));
    if (found == plan.node_by_pod.end()) {
      return {};
    }
    nodes[task] = found->second;
  }
  return nodes;
}

}  // namespace

void PlaceGang(const GangView& view, DecisionBuilder* builder) {
  if (const std::optional<CapacityWait> wait = AwaitCapacity(view, builder)) {
    builder->Set({ConditionType::kScheduled, false, wait->reason, wait->message}, wait->type);
    if (!wait->is_momentary) {
      HasWaitedTooLong(wait->message, builder);
    }
    return;
  }
  if (!MayBePlaced(view, builder)) {
    return;
  }
  const PlanResult result = builder->observed().round.has_value() ? *builder->observed().round
                                                                  : PlanAlone(view, *builder);
  builder->mutable_waiting()->claim.reset();
  if (const auto* refusal = std::get_if<Unschedulable>(&result)) {
    builder->mutable_waiting()->claim = builder->observed().claim;
    RefuseGang(*refusal, builder);
    return;
  }
  const std::map<TaskId, std::string> node_of =
      NodesOf(std::get<Plan>(result), builder->topology());
  if (node_of.empty()) {
    return;  // what has changed it makes it be looked at again
  }
  for (const TaskId& task : AllTasks(builder->topology())) {
    PodPlacement placement;
    placement.role = task.role;
    placement.index = task.index;
    placement.node = node_of.at(task);
    placement.since = builder->now();
    builder->mutable_placement()->placement.push_back(placement);
  }
  LeaveToScheduler(builder);
  NoteStart(builder);
  builder->Set({ConditionType::kScheduled, true, "GangPlaced", DescribePlan(builder->status())});
  builder->Count(Metric::kGangsPlaced, "");
}

}  // namespace lockstep::control
