#include "operator/reconcile/decide.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include "common/base/plural.h"
#include "operator/api/placement.h"
#include "operator/reconcile/build/pod.h"
#include "operator/reconcile/failure.h"
#include "operator/reconcile/gang_plan.h"
#include "operator/reconcile/gang_view.h"
#include "operator/reconcile/pass.h"
#include "operator/reconcile/policy/budget.h"
#include "operator/reconcile/policy/clean_pod_policy.h"
#include "operator/reconcile/policy/deadline.h"
#include "operator/reconcile/policy/echo.h"
#include "operator/reconcile/policy/gang_restart.h"
#include "operator/reconcile/policy/late_verdict.h"
#include "operator/reconcile/policy/replace.h"
#include "operator/reconcile/policy/success_policy.h"
#include "operator/reconcile/policy/successor.h"
#include "operator/reconcile/policy/ttl.h"
#include "operator/reconcile/queue.h"
#include "operator/reconcile/start_problem.h"
#include "operator/reconcile/summary.h"

namespace lockstep::control {
namespace {

// A pod that was decided and does not appear is created again after this long. Choice: a create
// that was lost costs no more than a second, and one that is only slow to appear is harmless.
constexpr std::chrono::seconds kCreateRetry{1};

GangView View(Pass* pass) {
  return ViewGang(pass->job().metadata, pass->status(), pass->topology(), pass->observed());
}

// Whether the ledger is about the pods the manifest asks for. They differ when the manifest was
// changed after the gang was placed.
bool PlacementFitsSpec(const Pass& pass) {
  const std::vector<TaskId> tasks = AllTasks(pass.topology());
  std::set<TaskId> placed;
  for (const PodPlacement& placement : pass.status().placement) {
    placed.insert(TaskOf(placement));
  }
  return placed == std::set<TaskId>(tasks.begin(), tasks.end());
}

void Begin(Pass* pass) {
  TrainingJobStatus* const status = pass->mutable_status();
  if (status->observed_generation != pass->job().metadata.generation) {
    status->retry_at.reset();  // the change may be the cure
    status->rollbacks = 0;
  }
  status->observed_generation = pass->job().metadata.generation;
  if (FindCondition(pass->status(), ConditionType::kCreated) == nullptr) {
    pass->Set({ConditionType::kCreated, true, "JobCreated", "the operator has taken the job up"});
  }
}

void Suspend(Pass* pass) {
  if (!pass->status().placement.empty()) {
    GiveUpGang(pass);
  }
  const std::string message = "runPolicy.suspend is set: no pod runs";
  pass->Set({ConditionType::kScheduled, false, "JobSuspended", message});
  pass->Set({ConditionType::kSuspended, true, "JobSuspended", message});
}

// The gang that runs is not the one that is asked for any more.
void Reshape(Pass* pass) {
  const ConditionChange change = {
      ConditionType::kScheduled, false, "SpecChanged", "the roles have changed"};
  GiveUpGang(pass);
  pass->Set(change);
  if (IsTrue(pass->status(), ConditionType::kRunning)) {
    SetCondition(pass->mutable_status(),
                 {ConditionType::kRunning, false, change.reason, change.message},
                 pass->now());
  }
}

void StartOrResume(Pass* pass) {
  if (IsTrue(pass->status(), ConditionType::kSuspended)) {
    pass->Set({ConditionType::kSuspended, false, "JobResumed", "runPolicy.suspend is not set"});
    pass->mutable_status()->start_time.reset();
  }
  if (!pass->status().start_time.has_value()) {
    pass->mutable_status()->start_time = pass->now();
  }
}

// Writes into the ledger which pods were seen and which are done.
void NoteSeen(const GangView& view, Pass* pass) {
  for (const Member& member : view.members) {
    if (member.pod == nullptr || member.state == MemberState::kVanished) {
      continue;
    }
    PodPlacement* const placement = pass->PlacementOf(member.task);
    placement->pod_uid = SeenMark(*member.pod);
    const RoleSpec* const role = pass->job().FindRole(member.task.role);
    if (member.state == MemberState::kSucceeded &&
        ResponseTo(role->restart_policy, Outcome::kSuccess, member.rank.has_value()) ==
            FailureResponse::kNone) {
      placement->is_completed = true;
    }
  }
}

void RefuseGang(const Unschedulable& refusal, Pass* pass) {
  const bool is_queued = refusal.constraint == Constraint::kQueue;
  pass->Set({ConditionType::kScheduled,
             false,
             is_queued ? "WaitsInQueue" : "Unschedulable",
             refusal.shortfall},
            is_queued ? EventType::kNormal : EventType::kWarning);
  if (pass->observed().is_one_machine) {
    pass->Fail("Unschedulable", refusal.shortfall);
    return;
  }
  TrainingJob waiting = pass->job();
  waiting.status = pass->status();
  const std::optional<WallTime> deadline = SchedulingDeadline(waiting);
  if (!deadline.has_value()) {
    return;
  }
  if (*deadline <= pass->now()) {
    pass->Fail("SchedulingTimeout",
               "no room within scheduling.timeoutSeconds: " + refusal.shortfall);
  } else {
    pass->WakeAt(*deadline);
  }
}

// Whether a job without a place may look for one now.
bool MayBePlaced(const GangView& view, Pass* pass) {
  const bool has_old_pods =
      std::any_of(view.stale.begin(), view.stale.end(), [&](const kube::Pod* pod) {
        return IsAlive(*pod, pass->observed());
      });
  if (has_old_pods) {
    return false;  // at most one attempt has pods; their ends come as news
  }
  const std::optional<WallTime> retry_at = pass->status().retry_at;
  if (retry_at.has_value() && pass->now() < *retry_at) {
    pass->WakeAt(*retry_at);
    return false;
  }
  pass->mutable_status()->retry_at.reset();
  if (pass->observed().service == ServiceState::kForeign) {
    pass->HoldBack("ServiceNameTaken",
                   "the service " + pass->job().metadata.name +
                       ", by which the pods would find each other, belongs to somebody else");
    return false;
  }
  return true;
}

// Finds room for the whole gang and writes down who goes where; pods follow in the same decision,
// after this status is stored.
void PlaceGang(const GangView& view, Pass* pass) {
  if (!MayBePlaced(view, pass)) {
    return;
  }
  const PlanResult result = PlanInTurn(
      SnapshotOf(pass->observed(), view), GangOf(pass->job(), pass->topology()), pass->observed());
  if (const auto* refusal = std::get_if<Unschedulable>(&result)) {
    RefuseGang(*refusal, pass);
    return;
  }
  std::set<std::string> nodes;
  for (const TaskId& task : AllTasks(pass->topology())) {
    PodPlacement placement;
    placement.role = task.role;
    placement.index = task.index;
    placement.node = std::get<Plan>(result).node_by_pod.at(TaskName(task));
    placement.since = pass->now();
    nodes.insert(placement.node);
    pass->mutable_status()->placement.push_back(placement);
  }
  pass->Set({ConditionType::kScheduled,
             true,
             "GangPlaced",
             "attempt " + std::to_string(pass->status().attempt.value()) + ": " +
                 Plural(static_cast<int64_t>(pass->status().placement.size()), "pod") + " on " +
                 Plural(static_cast<int64_t>(nodes.size()), "node")});
  pass->Count(Metric::kGangsPlaced, "");
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

void Succeed(const GangView& view, Pass* pass) {
  NoteResult(view, pass);
  const std::string who = pass->spec().success_policy == SuccessPolicy::kAllWorkers
                              ? "all ranks have finished"
                              : TaskName(*DecidingTask(pass->topology())) + " has finished";
  pass->Set({ConditionType::kSucceeded,
             true,
             "JobSucceeded",
             who + DescribeResult(pass->status().result)});
  pass->mutable_status()->completion_time = pass->now();
  pass->Count(Metric::kJobsFinished, "succeeded");
}

void FailFor(const Failure& failure, Pass* pass) {
  pass->Fail("PodFailed",
             failure.sentence + ", cause " + failure.cause + "; restarts used " +
                 std::to_string(CountedRestarts(pass->status())) + " of " +
                 std::to_string(pass->spec().run_policy.backoff_limit));
}

void AnswerFailures(const GangView& view, const std::vector<Failure>& failures, Pass* pass) {
  const Failure& origin = OriginOf(failures, pass->is_training());
  if (const auto until = PatienceWithEcho(*pass, view, failures)) {
    pass->WakeAt(*until);
  } else if (origin.response == FailureResponse::kFailJob) {
    FailFor(origin, pass);
  } else if (CanReplace(*pass, view, failures)) {
    if (RequireBudget(failures, pass)) {
      ReplaceMembers(view, failures, pass);
    }
  } else if (RequireBudget({origin}, pass)) {
    RestartGang(origin, pass);
  }
}

// Nothing is wrong: joins the newest meeting and says when the whole gang runs.
void NoteHealth(const GangView& view, Pass* pass) {
  bool is_complete = true;
  for (const Member& member : view.members) {
    is_complete = is_complete && (member.state == MemberState::kRunning ||
                                  member.state == MemberState::kSucceeded);
    if (member.report != nullptr) {
      pass->mutable_status()->epoch = std::max(pass->status().epoch, member.report->document.epoch);
    }
  }
  if (is_complete) {
    pass->mutable_status()->rollbacks = 0;
    pass->Set({ConditionType::kRunning,
               true,
               "GangRunning",
               view.members.size() == 1
                   ? "the pod runs"
                   : "all " + std::to_string(view.members.size()) + " pods run"});
  }
}

// Whether the member's pod may be created beside what is left of its predecessors: never beside one
// that was not even asked to end, and where a successor inherits the address not before that is
// free.
bool MayStart(const Pass& pass, const Member& member) {
  const bool inherits_address =
      std::holds_alternative<LoopbackAddressing>(pass.topology().addressing);
  // Without the cluster's scheduler nobody but us waits until a predecessor's room is free.
  const bool is_direct = pass.spec().scheduling.binding == PodBinding::kDirect;
  return member.predecessor == Predecessor::kGone ||
         (member.predecessor == Predecessor::kLeaving && !inherits_address && !is_direct);
}

// Whether the member's pod was decided, was never seen, and may be created now.
bool IsCreatable(const Pass& pass, const Member& member) {
  return member.state == MemberState::kNotSeen && !member.node.empty() && MayStart(pass, member) &&
         pass.observed().service != ServiceState::kForeign;
}

// Creates every pod that was decided and never seen: all of them, or none if one cannot be built.
void CreateMissing(const GangView& view, Pass* pass) {
  std::vector<Effect> creations;
  const ServiceState service = pass->observed().service;
  bool has_first = false;  // a gang's first pods find the job's key gone if somebody took it away
  for (const Member& member : view.members) {
    const PodPlacement& placement = *pass->PlacementOf(member.task);
    if (IsStarting(member)) {
      pass->WakeAt(StartDeadline(pass->job(), placement, member));
      WakeForStartProblems(placement, pass);
    }
    if (member.state != MemberState::kNotSeen || member.node.empty()) {
      continue;
    }
    pass->WakeAt(pass->now() + kCreateRetry);
    if (!IsCreatable(*pass, member)) {
      continue;
    }
    has_first = has_first || member.number.incarnation == Incarnation();
    auto pod = BuildPod(pass->job(),
                        {member.task, member.number, pass->status().epoch, placement.node},
                        pass->observed().settings);
    if (!pod.ok()) {
      pass->Fail("InvalidPod", "pod " + member.pod_name + ": " + pod.error().ToString());
      return;
    }
    creations.push_back(CreatePod{std::move(pod).value()});
  }
  const bool is_wanted = has_first || service == ServiceState::kMissing;
  if (service != ServiceState::kNotNeeded && service != ServiceState::kForeign && is_wanted &&
      !view.members.empty()) {
    pass->Do(PrepareJob{});
  }
  for (Effect& creation : creations) {
    pass->Do(std::move(creation));
  }
}

// A gang that was rolled back has nothing to save: its pods make room soon.
std::chrono::seconds GraceOfAttempt(const Pass& pass, const kube::Pod& pod) {
  constexpr std::chrono::seconds kRollbackGrace{5};  // choice: time to end in order
  const bool is_rolled_back = pass.status().rollbacks > 0 && pass.status().placement.empty();
  return is_rolled_back ? std::min(pod.spec.termination_grace, kRollbackGrace)
                        : pod.spec.termination_grace;
}

// Whether the pod's removal waits for its successor, which is about to be created or has no node
// yet: removing a pod takes the API server as long as creating one, and one that has ended is in
// nobody's way.
bool GivesWay(const GangView& view, const Pass& pass, const kube::Pod& pod, const TaskId& task) {
  const auto successor = std::find_if(view.members.begin(),
                                      view.members.end(),
                                      [&](const Member& member) { return member.task == task; });
  if (!HasEnded(pod) || successor == view.members.end()) {
    return false;
  }
  const bool is_unbound =
      successor->state == MemberState::kPending && successor->pod->spec.node_name.empty();
  return is_unbound || IsCreatable(pass, *successor);
}

// Older pods of a rank that lives on are killed at once: their work is taken over. Pods of an older
// attempt, or of a suspended job, get their grace, where there is a kubelet to give it.
void RemoveStale(const GangView& view, Pass* pass) {
  for (const kube::Pod* pod : view.stale) {
    const auto name = ParsePodName(pod->name);
    const bool is_superseded = name.has_value() && name->number.attempt == pass->status().attempt;
    const bool is_given_up =
        !pod->spec.node_name.empty() && !IsNodeReady(pass->observed(), pod->spec.node_name);
    if (!is_superseded && is_given_up) {
      pass->Delete(*pod, std::chrono::seconds(0), "attempt over, its node does not report");
    } else if (!is_superseded) {
      pass->Delete(*pod, GraceOfAttempt(*pass, *pod), "attempt over");
    } else if (!AwaitsVerdict(*pass, *pod) && (!pod->is_deleting || !HasEnded(*pod)) &&
               !GivesWay(view, *pass, *pod, name->task)) {
      pass->Delete(*pod, std::chrono::seconds(0), "replaced");
    }
  }
}

// Whether the ends of processes are answered before pods that cannot start. A gang that never ran
// is rolled back: members that gave up waiting for the missing ones did nothing wrong.
bool ComesFirst(const std::vector<Failure>& failures,
                const std::vector<StartProblem>& problems,
                const Pass& pass) {
  return problems.empty() || HasRun(pass.status()) ||
         OriginOf(failures, pass.is_training()).response == FailureResponse::kFailJob;
}

// One pass of a job that wants to run.
void Run(Pass* pass) {
  StartOrResume(pass);
  GangView view = View(pass);
  NoteSeen(view, pass);
  LearnVerdicts(view, pass);
  if (HasEnded(pass->status())) {
    return;
  }
  TrainingJob started = pass->job();
  started.status = pass->status();
  if (const auto deadline = ActiveDeadline(started)) {
    if (*deadline <= pass->now()) {
      pass->Fail("DeadlineExceeded",
                 "the job ran longer than runPolicy.activeDeadlineSeconds, " +
                     std::to_string(pass->spec().run_policy.active_deadline->count()) + " s");
      return;
    }
    pass->WakeAt(*deadline);
  }
  if (pass->status().placement.empty()) {
    PlaceGang(view, pass);
    return;
  }
  if (HasSucceeded(pass->spec().success_policy, pass->topology(), view)) {
    Succeed(view, pass);
    return;
  }
  if (PlaceWaitingSuccessors(view, pass)) {
    view = View(pass);
  }
  const std::vector<StartProblem> problems = FindStartProblems(*pass, view);
  const std::vector<Failure> failures = FindFailures(*pass, view, problems);
  if (!failures.empty() && ComesFirst(failures, problems, *pass)) {
    AnswerFailures(view, failures, pass);
  } else if (!problems.empty()) {
    AnswerStartProblems(view, problems, pass);
  } else {
    NoteHealth(view, pass);
  }
}

// What is left to do for a job that has ended.
void Finish(const GangView& view, Pass* pass) {
  LearnVerdicts(view, pass);
  CleanPods(view, pass);
  TrainingJob ended = pass->job();
  ended.status = pass->status();
  if (const auto expiry = ExpiryTime(ended)) {
    if (*expiry <= pass->now()) {
      pass->Do(DeleteJob{});
    } else {
      pass->WakeAt(*expiry);
    }
  }
}

}  // namespace

Decision Decide(const TrainingJob& job, const Observed& observed, WallTime now) {
  Pass pass(job, observed, now);
  if (!IsOurs(job)) {
    return pass.Take();  // somebody else's job
  }
  Begin(&pass);
  if (!HasEnded(pass.status())) {
    const std::vector<Error> problems = CheckTopology(pass.topology());
    if (!problems.empty()) {
      pass.Fail("InvalidJob", problems.front().ToString());
    } else {
      if (!pass.status().placement.empty() && !PlacementFitsSpec(pass)) {
        Reshape(&pass);
      }
      if (job.spec.run_policy.suspend) {
        Suspend(&pass);
      } else {
        Run(&pass);
      }
    }
  }
  const GangView view = View(&pass);  // anew: what was decided has made pods stale
  CountRoles(view, &pass);
  NoteProgress(view, &pass);
  NoteResult(view, &pass);
  if (HasEnded(pass.status())) {
    Finish(view, &pass);
    return pass.Take();
  }
  RemoveStale(view, &pass);
  CreateMissing(view, &pass);
  return pass.Take();
}

}  // namespace lockstep::control
