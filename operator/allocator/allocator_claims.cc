// Room that is kept for jobs until others have gone: what a round has decided, and what the
// statuses say of it.

#include <algorithm>
#include <utility>

#include "common/base/plural.h"
#include "operator/allocator/allocator.h"

namespace lockstep::control {
namespace {

// Gangs that a condition names. Choice: one line.
constexpr std::size_t kGangsNamedMax = 5;

// Another look at the same.
bool IsSame(const RoomClaim& a, const RoomClaim& b) {
  return a.places == b.places && std::equal(a.gangs.begin(),
                                            a.gangs.end(),
                                            b.gangs.begin(),
                                            b.gangs.end(),
                                            [](const ClaimedGang& one, const ClaimedGang& other) {
                                              return one.job == other.job;
                                            });
}

bool IsLeavingFor(const GangRecord* gang, const std::string& claimant) {
  return gang != nullptr && gang->state == GangState::kLeaving && gang->beneficiary == claimant;
}

}  // namespace

PlacedPods Allocator::PodsOf(const RoomClaim& claim) {
  PlacedPods pods;
  for (const ClaimedPlace& place : claim.places) {
    pods.push_back({place.task, place.node});
  }
  return pods;
}

const RoomClaim* Allocator::ClaimOf(const JobId& key) const {
  const auto found = claims_.find(key);
  return found == claims_.end() ? nullptr : &found->second.claim;
}

// A job's own from when its room is promised to it until its status says so, too.
UsageByNode Allocator::RoomKept() const {
  UsageByNode kept;
  for (const auto& [key, room] : claims_) {
    if (const GangRecord* const gang = state_.Find(GangNameOf(key)); gang != nullptr) {
      AddUsage(HeldBy(*gang), &kept);
    }
  }
  return kept;
}

// Those of the claim that have not gone yet.
std::vector<std::string> Allocator::StillThere(const RoomClaim& claim) const {
  std::vector<std::string> names;
  for (const ClaimedGang& gang : claim.gangs) {
    const GangRecord* const record = state_.Find(gang.job);
    const GangRecord* const going = state_.Find(GoingPodsOf(gang.job));
    if ((record != nullptr && record->state == GangState::kLeaving) ||
        (going != nullptr && going->state == GangState::kLeaving)) {
      names.push_back(gang.job);
    }
  }
  return names;
}

// "waits for 2 gangs to end: a/b, a/c"
std::string Allocator::WhatLeaves(const JobId& key) const {
  const RoomClaim* const claim = ClaimOf(key);
  const std::vector<std::string> names =
      claim == nullptr ? std::vector<std::string>() : StillThere(*claim);
  if (names.empty()) {
    return "waits for pods that are ending";
  }
  std::string text =
      "waits for " + Plural(static_cast<int64_t>(names.size()), "gang") + " to end: ";
  for (std::size_t i = 0; i < std::min(names.size(), kGangsNamedMax); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return text + (names.size() > kGangsNamedMax ? " and others" : "");
}

const GangRecord* Allocator::EvictorOf(const JobId& key,
                                       const std::string& uid,
                                       Attempt attempt) const {
  const auto found = claimed_gangs_.find(GangNameOf(key));
  if (found == claimed_gangs_.end()) {
    return nullptr;
  }
  const KeptRoom& kept = claims_.at(found->second.claimant);
  const ClaimedGang& gang = kept.claim.gangs[found->second.index];
  const std::string claimant = GangNameOf(found->second.claimant);
  const bool is_it = kept.is_stored && gang.uid == uid && gang.attempt == attempt &&
                     IsLeavingFor(state_.Find(gang.job), claimant);
  return is_it ? state_.Find(claimant) : nullptr;
}

// For whom the gang with its places is to go; empty: it stays.
std::string Allocator::ClaimantOn(const JobStand& stand) const {
  const auto found = claimed_gangs_.find(stand.request.name);
  if (found == claimed_gangs_.end()) {
    return "";
  }
  const ClaimedGang& gang = claims_.at(found->second.claimant).claim.gangs[found->second.index];
  // Until a status names it, it is whoever is there.
  const bool is_it = gang.uid.empty() || (gang.uid == stand.uid && gang.attempt == stand.attempt);
  return is_it ? GangNameOf(found->second.claimant) : "";
}

// The job waits; what its status says, if that is not what a round has given up since.
void Allocator::HeedClaim(const JobId& key, const JobStand& stand) {
  std::optional<RoomClaim> claim = stand.claim;
  if (const auto voided = voided_.find(key); voided != voided_.end()) {
    if (claim == voided->second) {
      claim.reset();
    } else {
      voided_.erase(voided);
    }
  }
  const auto known = claims_.find(key);
  const GangRecord& gang = *state_.Find(stand.request.name);
  if (!claim.has_value()) {
    const bool is_over =
        known != claims_.end() && (known->second.is_taken || gang.state != GangState::kClaiming);
    if (is_over) {
      DropClaim(key);
    }
    return;
  }
  const bool is_same = known != claims_.end() && IsSame(known->second.claim, *claim);
  if (!is_same) {
    DropClaim(key);
  }
  if (!is_same || claims_.at(key).claim != *claim) {
    for (const ClaimedGang& one : claim->gangs) {
      affected_.insert(JobOfGang(one.job));
    }
  }
  Keep(key, {*std::move(claim), true, stand.is_claim_stored});
  if (gang.state == GangState::kWaiting) {
    const RoomClaim& kept = claims_.at(key).claim;
    state_.Apply({OperationKind::kClaim, stand.request.name, {}, PodsOf(kept)}, kept.since);
  }
}

void Allocator::Keep(const JobId& key, KeptRoom kept) {
  for (std::size_t i = 0; i < kept.claim.gangs.size(); ++i) {
    claimed_gangs_[kept.claim.gangs[i].job] = {key, i};
  }
  claims_[key] = std::move(kept);
}

void Allocator::DropClaim(const JobId& key) {
  auto dropped = claims_.extract(key);
  if (dropped.empty()) {
    return;
  }
  Release(key, dropped.mapped().claim);
  const std::string name = GangNameOf(key);
  const GangRecord* const gang = state_.Find(name);
  if (gang != nullptr && gang->state == GangState::kClaiming) {
    state_.Apply({OperationKind::kUnclaim, name}, WallTime{});
  }
}

// Those that have not gone stay.
void Allocator::Release(const JobId& key, const RoomClaim& claim) {
  const std::string claimant = GangNameOf(key);
  std::erase_if(claimed_gangs_, [&](const auto& one) {
    return one.second.claimant == key && !claims_.contains(key);
  });
  for (const ClaimedGang& one : claim.gangs) {
    if (claimed_gangs_.contains(one.job)) {
      continue;  // another claims it since, or the next claim of this one
    }
    const GangRecord* const gang = state_.Find(one.job);
    if (IsLeavingFor(gang, claimant)) {
      const GangRequest request = gang->request;
      const RunTerms run = gang->run;
      state_.SetHolding(request, HeldBy(*gang), run);
    }
  }
}

// What a round has given up of what it kept, and what it keeps.
void Allocator::NoteClaims(const RoundResult& result, WallTime now) {
  std::map<std::string, std::vector<ClaimedGang>> evicted;  // by beneficiary
  for (const Eviction& eviction : result.evictions) {
    evicted[eviction.beneficiary].push_back({eviction.gang, "", Attempt()});
  }
  std::map<JobId, RoomClaim> given_up;
  for (const Operation& operation : result.log) {
    const JobId key = JobOfGang(operation.gang);
    if (operation.kind == OperationKind::kUnclaim) {
      auto kept = claims_.extract(key);
      if (kept.empty()) {
        continue;
      }
      if (kept.mapped().is_taken) {
        voided_[key] = kept.mapped().claim;
      }
      std::erase_if(claimed_gangs_, [&](const auto& one) { return one.second.claimant == key; });
      given_up[key] = std::move(kept.mapped().claim);
    } else if (operation.kind == OperationKind::kClaim) {
      RoomClaim claim;
      claim.since = now;
      claim.gangs = std::move(evicted[operation.gang]);
      // Some may be on their way for it already.
      for (const ClaimedGang& one : given_up[key].gangs) {
        if (IsLeavingFor(state_.Find(one.job), operation.gang)) {
          claim.gangs.push_back(one);
        }
      }
      for (const PlacedPod& placed : operation.pods) {
        claim.places.push_back({placed.pod, placed.node});
      }
      Keep(key, {std::move(claim)});
    }
  }
  for (const auto& [key, claim] : given_up) {
    Release(key, claim);
  }
}

}  // namespace lockstep::control
