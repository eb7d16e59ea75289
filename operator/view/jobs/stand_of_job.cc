#include "operator/view/jobs/stand_of_job.h"

#include <algorithm>

#include "operator/api/job/job_topology.h"
#include "operator/api/rules/gang_spread.h"
#include "operator/api/status/conditions.h"
#include "operator/capacity/capacity_answer.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/gang/suspect_nodes.h"
#include "operator/reconcile/lifecycle/deadline.h"
#include "operator/view/pods/going_pods.h"

namespace lockstep::control {
namespace {

// How often a gang may be given up before others stop to go for it. Choice: once may be an accident
// of a node.
constexpr int64_t kStartsInVainMax = 2;

bool HasPlaces(const TrainingJobStatus& status) {
  return !status.placement.empty() && !HasEnded(status);
}

// Whether the job, which wants a place, may be given one now or keeps its place for later.
bool StandsForPlace(const TrainingJob& job, WallTime now, Standing* standing) {
  const TrainingJobStatus& status = job.status;
  const bool has_changed = status.observed_generation != job.metadata.generation;
  const bool pauses = status.retry_at.has_value() && now < *status.retry_at && !has_changed;
  *standing = WaitsForPods(status) ? Standing::kAside
              : pauses             ? Standing::kPausing
                                   : Standing::kReady;
  return !pauses || WaitsForRoom(job, now);
}

// Whether its pods could be bound as it asks. One that waits for an API server to serve what that
// takes holds up nobody.
bool CanBind(const StandInputs& inputs) {
  return inputs.is_native_followed ||
         inputs.stored->job.spec.scheduling.binding != PodBinding::kNative;
}

// How long its pods may take to end after it was stopped.
std::chrono::seconds GraceOf(const TrainingJob& job) {
  std::chrono::seconds grace{0};
  for (const RoleSpec& role : job.spec.roles) {
    grace = std::max(grace, role.pod.termination_grace);
  }
  return grace;
}

// When its room is free at the latest, by its own limit or its queue's; epoch: some day.
WallTime StopOf(const StandInputs& inputs, const TrainingJobStatus& status) {
  const TrainingJob& job = inputs.stored->job;
  const std::optional<WallTime> deadline =
      ActiveDeadline(job.spec.run_policy, status, inputs.run_time_limit);
  return deadline ? *deadline + GraceOf(job) : WallTime{};
}

void CompleteRequest(const StandInputs& inputs, WallTime now, GangRequest* request) {
  const TrainingJob& job = inputs.stored->job;
  const GangSpread spread = FindGangSpread(job);
  if (const auto most = RunTimeMax(job.spec.run_policy, job.status, inputs.run_time_limit)) {
    request->run_time_max = *most + GraceOf(job);
    request->stops_at = StopOf(inputs, job.status);
  }
  request->topology = {spread.required, job.spec.scheduling.topology.preferred, spread.apart};
  request->gang = GangOf(job, TopologyOf(job, DnsAddressing{}));
  for (const SuspectNode& suspect : job.status.suspect_nodes) {
    if (const int64_t suspicion = SuspicionOf(job.status.suspect_nodes, suspect.node, now)) {
      request->suspects[suspect.node] = suspicion;
    }
  }
}

// How far the job is with asking autoscalers. Placeholder pods are answered by nobody: for as long
// as an answer to a request is trusted in, it is as if nodes were on their way.
Asking AskingOf(const TrainingJob& job, WallTime now, std::optional<WallTime>* awaited_until) {
  const std::optional<CapacityAsk>& ask = job.status.provisioning;
  if (!MayAskForCapacity(job.spec)) {
    return {};
  }
  if (!ask.has_value() || !ask->open.has_value()) {
    const bool has_failed = ask.has_value() && ask->failures > 0;
    return has_failed ? Asking{AskStage::kFailed, ask->retry_at.value_or(WallTime{})}
                      : Asking{AskStage::kNext};
  }
  if (ask->open->ask_class != ProvisioningClass::kPlaceholderPods) {
    return {ask->open->has_capacity ? AskStage::kAwaited : AskStage::kOpen};
  }
  const WallTime until = ask->open->since + kRoomTimeout;
  if (now >= until) {
    return {AskStage::kNext};
  }
  *awaited_until = until;
  return {AskStage::kAwaited};
}

// `status`: with the places, though it may be on its way to the server yet.
RunTerms RunTermsOf(const StandInputs& inputs, const TrainingJobStatus& status) {
  RunTerms run;
  if (const Condition* const scheduled = FindCondition(status, ConditionType::kScheduled)) {
    run.started_at = scheduled->last_transition;
  }
  if (status.progress.has_value() && status.progress->checkpoint_at.has_value()) {
    run.saved_at = *status.progress->checkpoint_at;
  }
  run.stops_at = StopOf(inputs, status);
  run.restart_count = status.preemptions;
  for (const RestartCount& restarts : status.restarts) {
    run.restart_count += restarts.count;
  }
  return run;
}

void AddClaim(const StandInputs& inputs, JobStand* stand) {
  const TrainingJob& job = inputs.stored->job;
  const std::optional<RoomClaim>& stored = job.status.claim;
  const bool has_next = inputs.reserved != nullptr && inputs.reserved->claim.has_value();
  stand->claim = has_next ? inputs.reserved->claim : stored;
  stand->is_claim_stored = stand->claim == stored;
  if (job.status.observed_generation != job.metadata.generation && !has_next) {
    stand->claim.reset();  // it may be of another gang
  }
}

void AddHeld(const StandInputs& inputs, WallTime now, JobStand* stand) {
  const JobUsage& usage = *inputs.usage;
  stand->held = usage.own;
  SubtractUsage(usage.going, &stand->held);
  stand->going = usage.going;
  AddUsage(usage.orphans, &stand->going);
  std::map<WallTime, UsageByNode> stuck_from = usage.stuck_from;
  for (const auto& [uid, part] : usage.unasked) {
    if (inputs.unasked_since != nullptr) {
      AddUsage(part, &stuck_from[inputs.unasked_since->at(uid) + kUnaskedAfter]);
    }
  }
  for (const auto& [when, part] : stuck_from) {
    if (when > now) {
      stand->stuck_from = when;
      break;
    }
    AddUsage(part, &stand->stuck);
    SubtractUsage(part, &stand->going);
  }
}

}  // namespace

const TrainingJobStatus* PlacedStatus(const TrainingJob& job, const TrainingJobStatus* reserved) {
  return HasPlaces(job.status)                         ? &job.status
         : reserved != nullptr && HasPlaces(*reserved) ? reserved
                                                       : nullptr;
}

JobStand StandOf(const JobId& key, const StandInputs& inputs, WallTime now) {
  JobStand stand;
  stand.request.name = GangNameOf(key);
  if (inputs.usage != nullptr) {
    AddHeld(inputs, now, &stand);
  }
  if (inputs.stored == nullptr) {
    return stand;
  }
  const StoredJob& stored = *inputs.stored;
  stand.request.since = stored.created;
  const Condition* const scheduled = FindCondition(stored.job.status, ConditionType::kScheduled);
  if (scheduled != nullptr && !scheduled->is_true) {
    // A suspension makes Scheduled false as well, and nothing waits before its end.
    stand.request.waits_since =
        std::max(scheduled->last_transition, stored.job.status.waiting_since.value_or(WallTime{}));
  }
  const TrainingJobStatus* const next = inputs.reserved;
  const TrainingJobStatus* const placed = PlacedStatus(stored.job, next);
  stand.is_placed = placed != nullptr;
  stand.request.queue =
      placed == nullptr ? QueueOf(stored.job.spec) : QueueOf(stored.job.spec, *placed);
  stand.request.priority = inputs.priority.priority;
  stand.request.may_preempt = inputs.priority.may_preempt;
  stand.request.is_preemptible = inputs.priority.is_preemptible;
  stand.request.fails_to_start = stored.job.status.rollbacks >= kStartsInVainMax;
  stand.request.missing_class = stand.is_placed ? "" : inputs.priority.missing;
  stand.wants_place = !stand.is_placed && WantsPlace(stored) && CanBind(inputs) &&
                      (next == nullptr || !HasEnded(*next)) &&
                      StandsForPlace(stored.job, now, &stand.request.standing);
  stand.uid = stored.job.metadata.uid;
  stand.attempt = stored.job.status.attempt;
  if (stand.is_placed) {
    stand.is_promised = !HasPlaces(stored.job.status);
    stand.run = RunTermsOf(inputs, *placed);
    // It goes already, or nobody can tell it: its status is unreadable.
    stand.request.is_preemptible = stand.request.is_preemptible && !stored.is_deleting &&
                                   stored.job.status.unreadable == nullptr;
  }
  if (stand.wants_place) {
    AddClaim(inputs, &stand);
    CompleteRequest(inputs, now, &stand.request);
    stand.request.asking = AskingOf(stored.job, now, &stand.awaited_until);
  } else {
    stand.request.standing = Standing::kReady;
  }
  return stand;
}

}  // namespace lockstep::control
