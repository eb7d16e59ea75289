#include "operator/reconcile/failure/vain_meeting.h"

#include <algorithm>

#include "operator/api/status/conditions.h"

namespace lockstep::control {
namespace {

bool IsInMeeting(const Member& member) {
  return member.state == MemberState::kRunning && member.rank.has_value() &&
         member.report != nullptr && member.report->document.phase == Phase::kRendezvous;
}

std::optional<WallTime> LeftAt(const Member& member) {
  const bool has_left = member.state == MemberState::kSucceeded && member.rank.has_value() &&
                        member.pod != nullptr && member.pod->status.termination.has_value();
  return has_left ? member.pod->status.termination->finished_at : std::nullopt;
}

// Of the ranks that wait in a meeting, as they have said since `moment`, how many.
int64_t CountMeeting(const DecisionBuilder& builder, const GangView& view, WallTime moment) {
  int64_t count = 0;
  for (const Member& member : view.members) {
    const RoleSpec* const role = builder.job().FindRole(member.task.role);
    if (role != nullptr && IsInMeeting(member) && moment + member.report->age <= builder.now()) {
      count += role->processes;
    }
  }
  return count;
}

// Its process is of a meeting that has come about. Where a process has ended its pod speaks for
// itself, and knows of no meeting.
bool HasMet(const Member& member) {
  if (member.state != MemberState::kRunning || !member.rank.has_value() ||
      member.report == nullptr) {
    return false;
  }
  const StatusDocument& document = member.report->document;
  return !document.backend.empty() && document.phase != Phase::kRendezvous &&
         document.phase != Phase::kStopping;
}

// What was said before, where nothing has come that says otherwise.
std::optional<std::string> WhatStands(const DecisionBuilder& builder, const GangView& view) {
  const Condition* const running = FindCondition(builder.status(), ConditionType::kRunning);
  const bool was_said =
      running != nullptr && running->is_true && running->reason == kReasonRankLeft;
  const bool has_left_one = std::ranges::any_of(
      view.members, [](const Member& member) { return LeftAt(member).has_value(); });
  return was_said && has_left_one && std::ranges::none_of(view.members, HasMet)
             ? std::optional(running->message)
             : std::nullopt;
}

}  // namespace

std::optional<std::string> DescribeVainMeeting(const GangView& view, DecisionBuilder* builder) {
  if (builder->is_training()) {
    return std::nullopt;
  }
  for (const Member& left : view.members) {
    const std::optional<WallTime> left_at = LeftAt(left);
    if (!left_at.has_value()) {
      continue;
    }
    if (builder->now() < *left_at + kFarewellSeen) {
      builder->WakeAt(*left_at + kFarewellSeen);
      continue;
    }
    // What was told sooner may have been of a meeting that it ended by its leave. Where one still
    // waits it did not, and all wait that have met since.
    if (CountMeeting(*builder, view, *left_at + kFarewellSeen) > 0) {
      const int64_t count = CountMeeting(*builder, view, *left_at);
      return DescribeMember(left) + " ended with exit code 0, but " + std::to_string(count) +
             (count == 1 ? " other rank waits" : " other ranks wait") + " for it in the rendezvous";
    }
  }
  return WhatStands(*builder, view);
}

}  // namespace lockstep::control
