#include "operator/reconcile/start/trouble_answer.h"

#include <set>
#include <string>
#include <utility>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/failure/vain_meeting.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/seen_gang.h"
#include "operator/reconcile/gang/suspect_nodes.h"
#include "operator/reconcile/lifecycle/renewal.h"
#include "operator/reconcile/recovery/failure_answer.h"
#include "operator/reconcile/recovery/gang_relaunch.h"
#include "operator/reconcile/recovery/gang_restart.h"
#include "operator/reconcile/recovery/refused_replacement.h"
#include "operator/reconcile/recovery/successor.h"
#include "operator/reconcile/start/start_answer.h"

namespace lockstep::control {
namespace {

// Whether the ends of processes are answered before pods that cannot start. A gang that never ran
// is rolled back: members that gave up waiting for the missing ones did nothing wrong.
bool ComeFirst(const Trouble& trouble, const DecisionBuilder& builder) {
  return trouble.problems.empty() || builder.status().has_run || trouble.fails_job;
}

}  // namespace

void NoteHealth(const GangView& view, DecisionBuilder* builder) {
  bool is_complete = !ContinueRelaunch(view, builder);
  std::set<std::string> nodes;
  for (const Member& member : view.members) {
    nodes.insert(member.node);
    if (const auto overdue = member.pod == nullptr ? std::nullopt : OverdueAt(*member.pod)) {
      builder->WakeAt(*overdue);
    }
    is_complete = is_complete && (member.state == MemberState::kRunning ||
                                  member.state == MemberState::kSucceeded);
    builder->mutable_recovery()->epoch = ReportedEpoch(member, builder->status().epoch);
  }
  if (is_complete) {
    PlacementStatus* const gang = builder->mutable_placement();
    gang->has_run = true;
    for (PodPlacement& placement : gang->placement) {
      placement.has_moved = false;
    }
    WaitingStatus* const waiting = builder->mutable_waiting();
    waiting->rollbacks = 0;
    waiting->waiting_since.reset();
    waiting->suspect_nodes = WithoutNodes(std::move(waiting->suspect_nodes), nodes);
    const ConditionChange change = {
        ConditionType::kRunning,
        true,
        "GangRunning",
        view.members.size() == 1 ? "the pod runs"
                                 : "all " + std::to_string(view.members.size()) + " pods run"};
    if (const auto vain = DescribeVainMeeting(view, builder)) {
      builder->Set({ConditionType::kRunning, true, kReasonRankLeft, *vain}, EventType::kWarning);
    } else {
      builder->Set(change);
    }
    // A restart that a preemption cut short is over as well.
    const Condition* const restarting =
        FindCondition(builder->status(), ConditionType::kRestarting);
    if (restarting != nullptr && restarting->reason == kReasonPreempted) {
      builder->SetQuietly({ConditionType::kRestarting, false, change.reason, change.message});
    }
  }
}

void AnswerTrouble(const GangView& view, Trouble trouble, DecisionBuilder* builder) {
  if (!trouble.fails_job && (RestartOnOtherPorts(builder) || RollBackOverQuota(builder))) {
    return;
  }
  TellOfTrouble(view, builder);
  AnnounceChange(builder);
  trouble.problems = HoldRefused(view, std::move(trouble.problems), builder);
  if (!trouble.failures.empty() && ComeFirst(trouble, *builder)) {
    AnswerFailures(view, trouble.failures, builder);
  } else if (!trouble.problems.empty()) {
    AnswerStartProblems(view, trouble.problems, builder);
  } else {
    NoteHealth(view, builder);
  }
  if (!HasEnded(builder->status()) && LacksPlace(builder->status())) {
    TellOfWaitingSuccessor(SeeGang(*builder), builder);
  }
}

}  // namespace lockstep::control
