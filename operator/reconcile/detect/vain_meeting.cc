#include "operator/reconcile/detect/vain_meeting.h"

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
      return DescribeMember(left) + " ended with exit code 0, and " + std::to_string(count) +
             (count == 1 ? " other waits" : " others wait") + " for it in a meeting";
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::control
