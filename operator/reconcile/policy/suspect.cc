#include "operator/reconcile/policy/suspect.h"

namespace lockstep::control {
namespace {

bool GivesFreshReport(const Member& member) {
  return member.report != nullptr && member.report->age <= kReportFresh;
}

bool IsAccused(const Member& accuser, const Member& accused, double silent_seconds_min) {
  for (const PeerStatus& peer : accuser.report->document.peers) {
    if (peer.rank == accused.rank && peer.incarnation == accused.number.incarnation &&
        peer.state == PeerState::kSilent && peer.silent_seconds >= silent_seconds_min) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::set<int> HangingRanks(const GangView& view, std::chrono::milliseconds silent_after) {
  std::set<int> hanging;
  for (const Member& accuser : view.members) {
    if (accuser.state != MemberState::kRunning || !GivesFreshReport(accuser)) {
      continue;
    }
    for (const Member& accused : view.members) {
      const bool may_hang =
          accused.state == MemberState::kRunning || accused.state == MemberState::kLeaving;
      if (accused.rank.has_value() && may_hang && !GivesFreshReport(accused) &&
          IsAccused(accuser, accused, ToSeconds(silent_after))) {
        hanging.insert(*accused.rank);
      }
    }
  }
  return hanging;
}

}  // namespace lockstep::control
