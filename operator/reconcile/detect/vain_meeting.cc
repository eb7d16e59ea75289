#include "operator/reconcile/detect/vain_meeting.h"

#include <algorithm>

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
    // What was told sooner may have been of a meeting that it ended by its leave.
    const auto count =
        std::count_if(view.members.begin(), view.members.end(), [&](const Member& member) {
          return IsInMeeting(member) &&
                 *left_at + kFarewellSeen + member.report->age <= builder->now();
        });
    if (count > 0) {
      return DescribeMember(left) + " ended with exit code 0, and " + std::to_string(count) +
             (count == 1 ? " other waits" : " others wait") + " for it in a meeting";
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::control
