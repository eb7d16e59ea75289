#include "operator/reconcile/policy/suspect.h"

namespace lockstep::control {
namespace {

bool IsAccused(const Member& accuser,
               const Member& accused,
               PeerState state,
               std::chrono::milliseconds silence_min) {
  for (const PeerStatus& peer : accuser.report->document.peers) {
    if (peer.rank == accused.rank && peer.incarnation == accused.number.incarnation &&
        peer.state == state && peer.silent_seconds >= ToSeconds(silence_min)) {
      return true;
    }
  }
  return false;
}

bool IsAboutToEnd(const Member& member) {
  if (member.report == nullptr) {
    return false;
  }
  const Phase phase = member.report->document.phase;
  return phase == Phase::kStopping || phase == Phase::kSucceeded || phase == Phase::kFailed;
}

// Ranks that do not answer and that a peer which does answer sees in `state`.
std::set<int> AccusedRanks(const GangView& view,
                           PeerState state,
                           std::chrono::milliseconds silence_min) {
  std::set<int> ranks;
  for (const Member& accuser : view.members) {
    if (accuser.state != MemberState::kRunning || !GivesFreshReport(accuser)) {
      continue;
    }
    for (const Member& accused : view.members) {
      const bool is_there =
          accused.state == MemberState::kRunning || accused.state == MemberState::kLeaving;
      if (accused.rank.has_value() && is_there && !GivesFreshReport(accused) &&
          IsAccused(accuser, accused, state, silence_min)) {
        ranks.insert(*accused.rank);
      }
    }
  }
  return ranks;
}

}  // namespace

std::set<int> HangingRanks(const GangView& view, std::chrono::milliseconds silent_after) {
  return AccusedRanks(view, PeerState::kSilent, silent_after);
}

std::set<int> LostRanks(const GangView& view, std::chrono::milliseconds silent_after) {
  std::set<int> lost = AccusedRanks(view, PeerState::kLost, silent_after + kKubeletHeadStart);
  for (const Member& member : view.members) {
    if (member.rank.has_value() && IsAboutToEnd(member)) {
      lost.erase(*member.rank);
    }
  }
  return lost;
}

}  // namespace lockstep::control
