#include "operator/reconcile/failure/judged_hang.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <set>
#include <vector>

namespace lockstep::control {
namespace {

// Evidence that is older may be of ranks that have gone on since. Choice: while ranks hang each pod
// is asked several times in that time, and those that hang stay as they are.
constexpr Duration kEvidenceFresh = std::chrono::seconds(5);

// What a pod that runs has said of its ranks of late; null: nothing.
const std::vector<RankEvidence>* ToldBy(const Member& member) {
  const bool counts = member.state == MemberState::kRunning && member.rank.has_value() &&
                      member.report != nullptr && member.report->age <= kEvidenceFresh;
  return counts ? &member.report->document.hang_evidence : nullptr;
}

}  // namespace

HangVerdict HangAmong(const DecisionBuilder& builder, const GangView& view) {
  if (builder.status().relaunch.since.has_value()) {
    return {};
  }
  std::vector<RankEvidence> ranks;
  std::set<int> known;
  for (const Member& member : view.members) {
    const std::vector<RankEvidence>* const told = ToldBy(member);
    for (std::size_t i = 0; told != nullptr && i < told->size(); ++i) {
      if (!known.insert((*told)[i].rank).second) {
        return {};
      }
      ranks.push_back((*told)[i]);
    }
  }
  return ranks.empty() ? HangVerdict() : JudgeHang(ranks);
}

bool Hangs(const HangVerdict& verdict, const Member& member) {
  const std::vector<RankEvidence>* const told = ToldBy(member);
  return told != nullptr && std::any_of(told->begin(), told->end(), [&](const RankEvidence& one) {
           return std::binary_search(verdict.culprits.begin(), verdict.culprits.end(), one.rank);
         });
}

}  // namespace lockstep::control
