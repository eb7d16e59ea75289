#include "operator/reconcile/lifecycle/progress.h"

#include <algorithm>
#include <chrono>

#include "common/contract/status/termination_message.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/failure/failure.h"
#include "operator/reconcile/failure/restart_policy.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/recovery/fall_back.h"

namespace lockstep::control {
namespace {

void CountMember(MemberState state, RoleCounts* counts) {
  switch (state) {
    case MemberState::kNotSeen:
    case MemberState::kPending:
    case MemberState::kLeaving:
      ++counts->pending;
      return;
    case MemberState::kRunning:
      ++counts->active;
      return;
    case MemberState::kSucceeded:
      ++counts->succeeded;
      return;
    case MemberState::kHeld:
    case MemberState::kFailed:
    case MemberState::kVanished:
      ++counts->failed;
      return;
  }
}

// What cleaning does to the pods of a job that has ended says nothing of how they ended.
bool IsCleanedAway(const Member& member) {
  return member.state == MemberState::kNotSeen || member.state == MemberState::kVanished ||
         member.state == MemberState::kLeaving ||
         (member.state == MemberState::kFailed && WasAskedToGo(*member.pod));
}

// What was known of a role a moment ago.
RoleCounts KnownCounts(const TrainingJobStatus& status, Role name) {
  for (const RoleCounts& counts : status.roles) {
    if (counts.name == name) {
      return counts;
    }
  }
  return {};
}

// Of several models the newest of any, as NoteModels has noted them.
int64_t NewestCheckpoint(const GangView& view, const DecisionBuilder& builder) {
  const std::optional<JobProgress>& known = builder.status().progress;
  int64_t newest = 0;
  if (known.has_value() && HasOwnModels(builder) && !known->models.empty()) {
    for (const ModelProgress& model : known->models) {
      newest = std::max(newest, model.checkpoint_step);
    }
    return newest;
  }
  newest = known.has_value() ? known->checkpoint_step : 0;
  for (const Member& member : view.members) {
    if (member.report != nullptr && member.report->document.last_checkpoint_step.has_value()) {
      newest = std::max(newest, member.report->document.last_checkpoint_step->value());
    }
  }
  return newest;
}

void NoteCheckpoint(int64_t step, WallTime heard_at, JobProgress* progress) {
  if (step != progress->checkpoint_step) {
    progress->checkpoint_step = step;
    progress->checkpoint_at = heard_at;
  }
}

// The last words of the lowest rank that finished and tells of steps or a test; null while there
// are none. Of several models who met the others tells of all: who came when they had left knows
// its own alone, which is no result of the job.
std::optional<TerminationMessage> FinalWords(const GangView& view, bool has_own_models) {
  std::optional<TerminationMessage> first;
  for (const Member& member : view.members) {  // in rank order
    if (!member.rank.has_value() || member.state != MemberState::kSucceeded ||
        member.pod == nullptr || !member.pod->status.termination.has_value()) {
      continue;
    }
    auto words = DecodeTerminationMessage(member.pod->status.termination->message);
    if (!words.ok() || (!words->result.has_value() && !words->last_step.has_value())) {
      continue;
    }
    if (!has_own_models || (words->result.has_value() && !words->result->models.empty())) {
      return std::move(words).value();
    }
    if (!first.has_value()) {
      words->result.reset();
      first = std::move(words).value();
    }
  }
  return first;
}

// The last report may be older than the last step, or nobody asked for one before the end.
void NoteLastStep(
    const TerminationMessage& words,
    WallTime now,
    bool is_training,  // by our trainer, whose words have a mean and not the last loss
    std::optional<JobProgress>* known) {
  JobProgress progress = known->value_or(JobProgress());
  progress.step = words.last_step->value();
  progress.steps_skipped = words.steps_skipped.value_or(progress.steps_skipped);
  progress.eta_seconds = 0;
  const bool is_news = !known->has_value() || progress.step != (*known)->step;
  if (is_news) {
    progress.observed_at = now;
    progress.steps_total = words.steps_total.value_or(progress.steps_total);
    progress.data_epoch = words.data_epoch.value_or(progress.data_epoch);
    progress.loss = is_training ? progress.loss : words.training_loss.value_or(progress.loss);
  }
  *known = progress;
}

// Pods of the role that a job without a gang waits for, or had never got when it ended: a later
// edit changes nothing of that.
int64_t PodsNeverPlaced(const RoleSpec& role, const DecisionBuilder& builder) {
  if (HasEnded(builder.job().status)) {
    return KnownCounts(builder.job().status, role.name).pending;
  }
  return builder.spec().run_policy.suspend ? 0 : role.replicas;
}

// Counts the pods of each role by what they do. Tasks without a pod are pending while the job is to
// run, and count nowhere while it is suspended or after its end.
void CountRoles(const GangView& view, DecisionBuilder* builder) {
  const bool has_ended = HasEnded(builder->status());
  std::vector<RoleCounts> roles;
  for (const RoleSpec& role : builder->spec().roles) {
    RoleCounts counts;
    counts.name = role.name;
    counts.pending = view.members.empty() ? PodsNeverPlaced(role, *builder) : 0;
    for (const Member& member : view.members) {
      if (member.task.role == role.name && !(has_ended && IsCleanedAway(member))) {
        CountMember(member.state, &counts);
      }
    }
    if (has_ended) {
      const RoleCounts known = KnownCounts(builder->status(), role.name);
      counts.succeeded = std::max(counts.succeeded, known.succeeded);
      counts.failed = std::max(counts.failed, known.failed);
    }
    roles.push_back(counts);
  }
  builder->mutable_progress()->roles = std::move(roles);
}

// How far training is, from the newest report of the lowest rank that gives one, and when that was
// first reported; kept as it was while nobody says anything new.
void NoteProgress(const GangView& view, DecisionBuilder* builder) {
  if (const auto words = FinalWords(view, HasOwnModels(*builder));
      !builder->is_training() && words.has_value() && words->last_step.has_value()) {
    return;  // NoteResult tells of them; an older report would take that back at each turn
  }
  NoteModels(view, builder);
  const Member* reporter = nullptr;
  for (const Member& member : view.members) {
    const bool is_nearer = reporter == nullptr || member.rank < reporter->rank;
    if (member.rank.has_value() && member.report != nullptr && is_nearer) {
      reporter = &member;
    }
  }
  if (reporter == nullptr) {
    return;
  }
  const StatusDocument& document = reporter->report->document;
  std::optional<JobProgress>* const known = &builder->mutable_progress()->progress;
  const WallTime reported_at =
      builder->now() - std::chrono::floor<std::chrono::milliseconds>(reporter->report->age);
  const Strategy strategy = builder->spec().strategy;
  const bool may_fall_back =
      strategy != Strategy::kIndependent && known->has_value() &&
      MayFallBack(**known, document, reported_at, builder->status(), strategy);
  // A model of its own is behind no other, and NoteModels has told of one that went back.
  const bool may_be_behind = HasOwnModels(*builder) ? HoldsState(document) : may_fall_back;
  if (known->has_value() && document.step.value() < (*known)->step && builder->is_training() &&
      !may_be_behind) {
    NoteCheckpoint(NewestCheckpoint(view, *builder), reported_at, &**known);
    return;
  }
  JobProgress progress;
  progress.step = document.step.value();
  progress.steps_total = document.steps_total.value_or(0);
  progress.steps_skipped = document.steps_skipped;
  progress.data_epoch = document.data_epoch;
  progress.loss = document.loss.value_or(0);
  progress.samples_per_second = document.samples_per_second;
  const int64_t steps_left = std::max<int64_t>(0, progress.steps_total - progress.step);
  if (builder->is_training() && progress.samples_per_second > 0) {
    progress.eta_seconds =
        static_cast<double>(steps_left * builder->spec().training->global_batch_size) /
        progress.samples_per_second;
  } else if (!builder->is_training()) {
    progress.eta_seconds = document.eta_seconds.value_or(0);
  }
  if (known->has_value()) {
    progress.checkpoint_step = (*known)->checkpoint_step;
    progress.checkpoint_at = (*known)->checkpoint_at;
    progress.steps_repeated = (*known)->steps_repeated;
    progress.models = (*known)->models;
  }
  const bool has_fallen =
      may_fall_back && builder->is_training() && HasFallenBack(**known, document);
  progress.steps_repeated += has_fallen ? StepsToRepeat(**known, document) : 0;
  NoteCheckpoint(has_fallen ? CheckpointLeft(**known, document) : NewestCheckpoint(view, *builder),
                 reported_at,
                 &progress);
  progress.observed_at = known->has_value() ? (*known)->observed_at : WallTime{};
  if (*known != progress) {
    if (may_fall_back) {
      TellOfFallBack(**known, document, builder);
    }
    // Else a state that is lost with whoever answered could not be told of any more.
    if (!known->has_value() || HasMetSince(document, builder->status(), strategy)) {
      progress.observed_at = reported_at;
    }
    *known = progress;
  }
}

// Where the job stands in its queue, for as long as it wants places and has none.
void NoteQueuePosition(DecisionBuilder* builder) {
  const bool waits = builder->status().placement.empty() && !HasEnded(builder->status()) &&
                     !builder->spec().run_policy.suspend;
  builder->mutable_waiting()->queue = waits ? builder->observed().queue_position : std::nullopt;
}

}  // namespace

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

void NoteResult(const GangView& view, DecisionBuilder* builder) {
  const auto words = FinalWords(view, HasOwnModels(*builder));
  if (!words.has_value()) {
    return;
  }
  ProgressStatus* const progress = builder->mutable_progress();
  progress->result = words->result.has_value() ? words->result : progress->result;
  if (words->last_step.has_value()) {
    NoteLastStep(*words, builder->now(), builder->is_training(), &progress->progress);
  }
}

void Report(const GangView& view, DecisionBuilder* builder) {
  CountRoles(view, builder);
  NoteProgress(view, builder);
  NoteResult(view, builder);
  NoteQueuePosition(builder);
}

}  // namespace lockstep::control
