#include "operator/reconcile/act/summary.h"

#include <algorithm>
#include <chrono>

#include "common/contract/termination_message.h"

namespace lockstep::control {
namespace {

void CountMember(MemberState state, RoleCounts* counts) {
  switch (state) {
    case MemberState::kNotSeen:
    case MemberState::kPending:
      ++counts->pending;
      return;
    case MemberState::kRunning:
    case MemberState::kLeaving:
      ++counts->active;
      return;
    case MemberState::kSucceeded:
      ++counts->succeeded;
      return;
    case MemberState::kFailed:
    case MemberState::kVanished:
      ++counts->failed;
      return;
  }
}

// The last words of the lowest rank that finished a training; null while there are none.
std::optional<TerminationMessage> FinalWords(const GangView& view) {
  for (const Member& member : view.members) {  // in rank order
    if (!member.rank.has_value() || member.state != MemberState::kSucceeded ||
        member.pod == nullptr || !member.pod->status.termination.has_value()) {
      continue;
    }
    auto words = DecodeTerminationMessage(member.pod->status.termination->message);
    if (words.ok() && words->result.has_value()) {
      return std::move(words).value();
    }
  }
  return std::nullopt;
}

}  // namespace

void CountRoles(const GangView& view, DecisionBuilder* builder) {
  const bool is_waiting =
      view.members.empty() && !HasEnded(builder->status()) && !builder->spec().run_policy.suspend;
  std::vector<RoleCounts> roles;
  for (const RoleSpec& role : builder->spec().roles) {
    RoleCounts counts;
    counts.name = role.name;
    counts.pending = is_waiting ? role.replicas : 0;
    for (const Member& member : view.members) {
      const bool will_never_start =
          HasEnded(builder->status()) && member.state == MemberState::kNotSeen;
      if (member.task.role == role.name && !will_never_start) {
        CountMember(member.state, &counts);
      }
    }
    roles.push_back(counts);
  }
  builder->mutable_status()->roles = std::move(roles);
}

void NoteProgress(const GangView& view, DecisionBuilder* builder) {
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
  JobProgress progress;
  progress.step = document.step.value();
  progress.steps_total = document.steps_total.value_or(0);
  progress.data_epoch = document.data_epoch;
  progress.loss = document.loss.value_or(0);
  progress.samples_per_second = document.samples_per_second;
  const int64_t steps_left = std::max<int64_t>(0, progress.steps_total - progress.step);
  if (builder->is_training() && progress.samples_per_second > 0) {
    progress.eta_seconds =
        static_cast<double>(steps_left * builder->spec().training->global_batch_size) /
        progress.samples_per_second;
  }
  std::optional<JobProgress>* const known = &builder->mutable_status()->progress;
  progress.observed_at = known->has_value() ? (*known)->observed_at : WallTime{};
  if (*known != progress) {
    progress.observed_at =
        builder->now() - std::chrono::floor<std::chrono::milliseconds>(reporter->report->age);
    *known = progress;
  }
}

void NoteResult(const GangView& view, DecisionBuilder* builder) {
  const auto words = FinalWords(view);
  if (!words.has_value()) {
    return;
  }
  TrainingJobStatus* const status = builder->mutable_status();
  status->result = words->result;
  // The last report may be older than the last step.
  if (status->progress.has_value() && words->last_step.has_value()) {
    status->progress->step = words->last_step->value();
    status->progress->eta_seconds = 0;
  }
}

}  // namespace lockstep::control
