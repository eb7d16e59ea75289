#include "operator/reconcile/decide.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <utility>

#include "operator/capacity/ask_capacity.h"
#include "operator/capacity/capacity_sources.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/failure/device_check.h"
#include "operator/reconcile/failure/echo.h"
#include "operator/reconcile/failure/failure.h"
#include "operator/reconcile/failure/key_check.h"
#include "operator/reconcile/failure/left_rank.h"
#include "operator/reconcile/failure/own_end.h"
#include "operator/reconcile/failure/start_problem.h"
#include "operator/reconcile/failure/vain_meeting.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/early_end.h"
#include "operator/reconcile/gang/gang_size.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/gang/reported_epoch.h"
#include "operator/reconcile/gang/success_policy.h"
#include "operator/reconcile/gang/suspect_nodes.h"
#include "operator/reconcile/lifecycle/clean_pods.h"
#include "operator/reconcile/lifecycle/clock_skew.h"
#include "operator/reconcile/lifecycle/deadline.h"
#include "operator/reconcile/lifecycle/evict_gang.h"
#include "operator/reconcile/lifecycle/late_change.h"
#include "operator/reconcile/lifecycle/note_unplanned.h"
#include "operator/reconcile/lifecycle/progress.h"
#include "operator/reconcile/lifecycle/release.h"
#include "operator/reconcile/lifecycle/renewal.h"
#include "operator/reconcile/lifecycle/resize.h"
#include "operator/reconcile/lifecycle/suspension.h"
#include "operator/reconcile/lifecycle/take_up.h"
#include "operator/reconcile/lifecycle/ttl.h"
#include "operator/reconcile/pods/admission_change.h"
#include "operator/reconcile/recovery/gang_relaunch.h"
#include "operator/reconcile/recovery/gang_restart.h"
#include "operator/reconcile/recovery/late_verdict.h"
#include "operator/reconcile/recovery/refused_replacement.h"
#include "operator/reconcile/recovery/replace.h"
#include "operator/reconcile/recovery/successor.h"
#include "operator/reconcile/stall.h"
#include "operator/reconcile/start/gang_pods.h"
#include "operator/reconcile/start/place_gang.h"
#include "operator/reconcile/start/start_answer.h"

namespace lockstep::control {
namespace {

GangView View(DecisionBuilder* builder) {
  return WithEarlyEnds(
      *builder,
      ViewGang(
          builder->job().metadata, builder->status(), builder->topology(), builder->observed()));
}

void Begin(DecisionBuilder* builder) {
  TrainingJobStatus* const status = builder->mutable_status();
  const bool is_edited = status->observed_generation != builder->job().metadata.generation;
  *status = WithoutFuture(std::move(*status), builder->now());
  status->preempted_at = PreemptedAt(*status);
  if (is_edited) {
    if (HasEnded(*status)) {
      RefuseLateChange(builder);
    }
    status->retry_at.reset();  // the change may be the cure
    status->claim.reset();     // it may be of another gang
    ForgetFailedAsks(status);
    status->rollbacks = 0;
    if (status->placement.empty()) {
      status->admitted.clear();  // what made it so may be gone: the next pods tell
    }
  }
  status->observed_generation = builder->job().metadata.generation;
  status->incidents =
      Remembered(std::move(status->incidents),
                 status->progress.has_value() ? status->progress->checkpoint_step : 0,
                 builder->now());
  EndStall(status, builder->now());
  if (FindCondition(builder->status(), ConditionType::kCreated) == nullptr) {
    TakeUp(builder);
  }
  NoteUnplanned(is_edited, builder);
}

// Writes into the ledger which pods were seen and which are done.
void NoteSeen(const GangView& view, DecisionBuilder* builder) {
  for (const Member& member : view.members) {
    if (member.pod == nullptr || member.state == MemberState::kVanished) {
      continue;
    }
    PodPlacement* const placement = builder->PlacementOf(member.task);
    placement->pod_uid = SeenMark(*member.pod);
    if (const std::string& why = member.pod->status.disruption; !why.empty()) {
      placement->disruption = why;
    }
    const RoleSpec* const role = builder->job().FindRole(member.task.role);
    if (member.state == MemberState::kSucceeded && !IsTrainersPs(*builder, member) &&
        ResponseTo(role->restart_policy, Outcome::kSuccess, member.rank.has_value()) ==
            FailureResponse::kNone) {
      placement->is_completed = true;
    }
  }
}

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
  builder->mutable_status()->completion_time = builder->now();
  builder->Count(Metric::kJobsFinished, "succeeded");
}

void FailFor(const Failure& failure, DecisionBuilder* builder) {
  builder->Fail("PodFailed",
                failure.sentence + ", cause " + failure.cause + "; earlier incidents: " +
                    std::to_string(CountedIncidents(builder->status().incidents)) + " of " +
                    std::to_string(builder->spec().run_policy.backoff_limit));
}

void AnswerFailures(const GangView& view,
                    const std::vector<Failure>& failures,
                    DecisionBuilder* builder) {
  const Failure& origin = OriginOf(failures, builder->is_training());
  if (const auto until = PatienceWithEcho(*builder, view, failures)) {
    builder->WakeAt(*until);
    return;
  }
  builder->mutable_status()->last_failure = {
      origin.pod_name, builder->now(), origin.sentence, origin.tail};
  if (origin.response == FailureResponse::kFailJob) {
    FailFor(origin, builder);
  } else if (CanReplace(*builder, view, failures)) {
    if (SpendBudget(failures, builder)) {
      ReplaceMembers(view, failures, builder);
    }
  } else if (SpendBudget({origin}, builder)) {
    StartGangAnew(view, failures, builder);
  }
}

// Nothing is wrong: joins the newest meeting and says when the whole gang runs.
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
    builder->mutable_status()->epoch = ReportedEpoch(member, builder->status().epoch);
  }
  if (is_complete) {
    TrainingJobStatus* const status = builder->mutable_status();
    status->has_run = true;
    for (PodPlacement& placement : status->placement) {
      placement.has_moved = false;
    }
    status->rollbacks = 0;
    status->waiting_since.reset();
    status->suspect_nodes = WithoutNodes(std::move(status->suspect_nodes), nodes);
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
    const Condition* const restarting = FindCondition(*status, ConditionType::kRestarting);
    if (restarting != nullptr && restarting->reason == kReasonPreempted) {
      SetCondition(status,
                   {ConditionType::kRestarting, false, change.reason, change.message},
                   builder->now());
    }
  }
}

// Whether the ends of processes are answered before pods that cannot start. A gang that never ran
// is rolled back: members that gave up waiting for the missing ones did nothing wrong.
bool ComesFirst(const std::vector<Failure>& failures,
                const std::vector<StartProblem>& problems,
                const DecisionBuilder& builder) {
  return problems.empty() || builder.status().has_run ||
         OriginOf(failures, builder.is_training()).response == FailureResponse::kFailJob;
}

// One turn of a job that wants to run.
void Run(DecisionBuilder* builder) {
  StartOrResume(builder);
  GangView view = View(builder);
  if (NoteRealNodes(view, builder)) {
    view = View(builder);
  }
  LearnRelaunches(view, builder);
  NoteAbsence(builder);
  NoteSeen(view, builder);
  NoteTrouble(view, builder);
  NoteAdmission(view, builder);
  LearnVerdicts(view, builder);
  if (HasEnded(builder->status()) || HasRunTooLong(builder)) {
    return;
  }
  if (builder->status().placement.empty()) {
    PlaceGang(view, builder);
    return;
  }
  const DecisiveEnd end = DecisiveEndOf(view, builder);
  if (end == DecisiveEnd::kOver) {
    Succeed(
        view, DescribeSuccess(builder->spec().success_policy, builder->topology(), view), builder);
    return;
  }
  if (end == DecisiveEnd::kAwaited) {
    return NoteHealth(view, builder);
  }
  if (const Member* finished = builder->is_training() ? FinishedBefore(view) : nullptr) {
    Succeed(view, "training has finished, as reported by " + TaskName(finished->task), builder);
    return;
  }
  if (builder->observed().eviction.has_value()) {
    EvictGang(view, *builder->observed().eviction, builder);
    return;
  }
  if (EvictWithoutCapacity(view, builder)) {
    return;
  }
  if (PlaceWaitingSuccessors(view, builder)) {
    view = View(builder);
  }
  std::vector<StartProblem> problems = FindStartProblems(*builder, view);
  const std::vector<Failure> failures =
      BlameLeavers(*builder, view, FindFailures(*builder, view, problems));
  const bool is_over = !failures.empty() && OriginOf(failures, builder->is_training()).response ==
                                                FailureResponse::kFailJob;
  const bool needs_pods = !failures.empty() || !problems.empty() || LacksPods(view) ||
                          !builder->status().has_run;  // the change may be the cure
  if (IsOutdated(*builder) && needs_pods && !is_over) {
    RenewGang(builder);
    return;
  }
  if (!is_over && (RestartOnOtherPorts(builder) || RollBackOverQuota(builder))) {
    return;
  }
  TellOfTrouble(view, builder);
  AnnounceChange(builder);
  problems = HoldRefused(view, std::move(problems), builder);
  if (!failures.empty() && ComesFirst(failures, problems, *builder)) {
    AnswerFailures(view, failures, builder);
  } else if (!problems.empty()) {
    AnswerStartProblems(view, problems, builder);
  } else {
    NoteHealth(view, builder);
  }
  if (!HasEnded(builder->status()) && LacksPlace(builder->status())) {
    TellOfWaitingSuccessor(View(builder), builder);
  }
}

// What is left to do for a job that has ended.
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

// Everything but how large the gang is to be, which `builder` has from its caller.
void DecideAll(DecisionBuilder* builder) {
  Begin(builder);
  if (!HasEnded(builder->status())) {
    const std::vector<Error> problems = CheckTopology(builder->topology());
    if (!problems.empty()) {
      builder->Fail("InvalidJob", problems.front().ToString());
    } else {
      if (!builder->job().status.placement.empty() && !HasAskedSize(builder->job())) {
        RenewGang(builder);
      }
      if (builder->spec().run_policy.suspend) {
        Suspend(builder);
      } else {
        Run(builder);
      }
    }
  }
  const GangView view = View(builder);  // anew: what was decided has made pods stale
  CountRoles(view, builder);
  NoteProgress(view, builder);
  NoteResult(view, builder);
  NoteOrigin(builder);
  NoteQueuePosition(builder);
  TellCapacity(view, builder);
  if (HasEnded(builder->status())) {
    builder->mutable_status()->claim.reset();
    Finish(view, builder);
    return;
  }
  CheckDevices(view, builder);
  CheckKey(view, builder);
  RemoveStale(view, builder);
  CreateMissing(view, builder);
}

Decision DecideOnSize(const TrainingJob& job, const Observed& observed, WallTime now) {
  const std::string misfit = WhySizeNeverFits(job, observed);
  if (misfit.empty() && !AwaitsConsent(job, observed)) {
    DecisionBuilder builder(job, observed, now);
    DecideAll(&builder);
    NoteSizeIsHeeded(&builder);
    return builder.Take();
  }
  const TrainingJob placed = AsPlaced(job);
  DecisionBuilder builder(placed, observed, now);
  DecideAll(&builder);
  if (misfit.empty()) {
    AskForConsent(job, &builder);
  } else {
    RefuseSize(job, misfit, &builder);
  }
  return builder.Take();
}

}  // namespace

Decision Decide(const TrainingJob& job, const Observed& observed, WallTime now) {
  if (!IsOurs(job)) {
    return DecisionBuilder(job, observed, now).Take();  // somebody else's job
  }
  if (observed.is_job_deleting) {
    return ReleaseJob(job, observed, now);
  }
  if (HasEndedBesideOthers(observed)) {
    return DecideOnSize(job, WithOwnEnds(job, observed), now);
  }
  return DecideOnSize(job, observed, now);
}

}  // namespace lockstep::control
