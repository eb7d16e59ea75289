#include "operator/reconcile/failure/hung_rank.h"

#include <algorithm>

#include "operator/api/job/placement.h"

namespace lockstep::control {
namespace {

// Whether what a peer says of `accused` speaks against it.
using ChargeRule = bool (*)(const PeerStatus& entry,
                            const Member& accused,
                            std::chrono::milliseconds patience);

bool IsSilentFor(const PeerStatus& entry, std::chrono::milliseconds patience) {
  return entry.silent_seconds >= ToSeconds(patience);
}

bool IsSilent(const PeerStatus& entry, const Member& accused, std::chrono::milliseconds patience) {
  return entry.incarnation == accused.number.incarnation && entry.state == PeerState::kSilent &&
         IsSilentFor(entry, patience);
}

bool IsLost(const PeerStatus& entry, const Member& accused, std::chrono::milliseconds patience) {
  return entry.incarnation == accused.number.incarnation && entry.state == PeerState::kLost &&
         IsSilentFor(entry, patience);
}

// A peer that was never met has no incarnation yet; one that was may have met an older one.
bool IsMissed(const PeerStatus& entry, const Member& accused, std::chrono::milliseconds patience) {
  const bool was_met = entry.state != PeerState::kMissing;
  return entry.state != PeerState::kConnected && IsSilentFor(entry, patience) &&
         (was_met ? entry.incarnation < accused.number.incarnation
                  : entry.incarnation <= accused.number.incarnation);
}

bool IsAboutToEnd(const Member& member) {
  if (member.report == nullptr) {
    return false;
  }
  const Phase phase = member.report->document.phase;
  return phase == Phase::kStopping || phase == Phase::kSucceeded || phase == Phase::kFailed;
}

// Ranks that do not answer, and that a peer which does answer charges with it.
std::set<int> ChargedRanks(const GangView& view,
                           ChargeRule charge,
                           std::chrono::milliseconds patience) {
  std::set<int> ranks;
  for (const Member& accuser : view.members) {
    if (accuser.state != MemberState::kRunning || !GivesFreshReport(accuser)) {
      continue;
    }
    for (const Member& accused : view.members) {
      const bool is_there =
          accused.state == MemberState::kRunning || accused.state == MemberState::kLeaving;
      if (!accused.rank.has_value() || !is_there || GivesFreshReport(accused)) {
        continue;
      }
      const auto& entries = accuser.report->document.peers;
      if (std::any_of(entries.begin(), entries.end(), [&](const PeerStatus& entry) {
            return entry.rank == *accused.rank && charge(entry, accused, patience);
          })) {
        ranks.insert(*accused.rank);
      }
    }
  }
  return ranks;
}

// Whether the member's process has run for `patience` at least: the gang was whole so long ago, and
// it was in it. A successor that was decided with the loss that ended the whole gang was not: it
// may have waited for room until a moment ago.
bool HasRunFor(const DecisionBuilder& builder,
               const Member& member,
               std::chrono::milliseconds patience) {
  const Condition* const running = FindCondition(builder.status(), ConditionType::kRunning);
  const PodPlacement* const placement = FindPlacement(builder.status(), member.task);
  if (!builder.status().has_run || running == nullptr ||
      builder.now() - running->last_transition < patience) {
    return false;
  }
  return running->is_true ? placement->since <= running->last_transition
                          : placement->since < running->last_transition;
}

}  // namespace

std::set<int> HangingRanks(const GangView& view, std::chrono::milliseconds silent_after) {
  return ChargedRanks(view, IsSilent, silent_after);
}

std::set<int> EndedRanks(const GangView& view, const std::set<std::string>& closed_pods) {
  std::set<int> ended;
  for (const Member& accuser : view.members) {
    // Whoever has trained to the end loses its peers as well, and does not wait for them.
    if (accuser.state != MemberState::kRunning || !GivesFreshReport(accuser) ||
        accuser.report->document.phase != Phase::kRendezvous) {
      continue;
    }
    for (const Member& accused : view.members) {
      const bool is_there =
          accused.state == MemberState::kRunning || accused.state == MemberState::kLeaving;
      const auto& entries = accuser.report->document.peers;
      if (accused.rank.has_value() && is_there && closed_pods.count(accused.pod_name) > 0 &&
          std::any_of(entries.begin(), entries.end(), [&](const PeerStatus& entry) {
            return entry.rank == *accused.rank && IsLost(entry, accused, {});
          })) {
        ended.insert(*accused.rank);
      }
    }
  }
  return ended;
}

std::set<int> LostRanks(const GangView& view, std::chrono::milliseconds silent_after) {
  std::set<int> lost = ChargedRanks(view, IsLost, silent_after + kKubeletHeadStart);
  for (const Member& member : view.members) {
    if (member.rank.has_value() && IsAboutToEnd(member)) {
      lost.erase(*member.rank);
    }
  }
  return lost;
}

std::set<int> AbsentRanks(const DecisionBuilder& builder, const GangView& view) {
  const auto patience = builder.spec().recovery.rendezvous_timeout / kRendezvousShare;
  std::set<int> absent = ChargedRanks(view, IsMissed, patience);
  for (const Member& member : view.members) {
    const bool has_answered = member.report != nullptr && member.report->age < patience;
    if (member.rank.has_value() &&
        (has_answered || IsHeard(view.members, member) || !HasRunFor(builder, member, patience))) {
      absent.erase(*member.rank);
    }
  }
  return absent;
}

}  // namespace lockstep::control
