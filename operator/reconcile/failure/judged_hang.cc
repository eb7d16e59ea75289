#include "operator/reconcile/failure/judged_hang.h"

#include <algorithm>
#include <chrono>

namespace lockstep::control {
namespace {

// Evidence that is older may be of ranks that have gone on since. Choice: while ranks hang each pod
// is asked several times in that time, and those that hang stay as they are.
constexpr Duration kEvidenceFresh = std::chrono::seconds(5);

}  // namespace

HangVerdict HangAmong(const DecisionBuilder& builder, const GangView& view) {
  if (builder.status().relaunch.since.has_value()) {
    return {};
  }
  std::vector<RankEvidence> ranks;
  for (const Member& member : view.members) {
    if (member.state == MemberState::kRunning && member.rank.has_value() &&
        member.report != nullptr && member.report->age <= kEvidenceFresh) {
      const std::vector<RankEvidence>& told = member.report->document.hang_evidence;
      ranks.insert(ranks.end(), told.begin(), told.end());
    }
  }
  return ranks.empty() ? HangVerdict() : JudgeHang(ranks);
}

bool Hangs(const HangVerdict& verdict, const Member& member, int64_t processes) {
  return member.rank.has_value() && member.state == MemberState::kRunning &&
         std::any_of(verdict.culprits.begin(), verdict.culprits.end(), [&](int rank) {
           return rank >= *member.rank && rank < *member.rank + processes;
         });
}

}  // namespace lockstep::control
