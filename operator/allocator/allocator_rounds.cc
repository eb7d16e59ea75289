// When rounds are made, what they answer, and how that is taken back.

#include <chrono>
#include <utility>

#include "operator/allocator/allocator.h"
#include "operator/scheduler/state/state_event.h"

namespace lockstep::control {
namespace {

// Refusals that one round puts into words anew because figures have changed. Choice: a
// millisecond's worth on thousands of nodes.
constexpr std::size_t kRefreshedMax = 32;

// As RoundOptions has it. Choice: what ends within minutes is waited for; what may run for days is
// not.
constexpr std::chrono::minutes kHoldBack{10};

Plan PlanOf(const PlacedPods& pods) {
  Plan plan;
  for (const PlacedPod& placed : pods) {
    plan.node_by_pod[placed.pod] = placed.node;
  }
  return plan;
}

}  // namespace

std::optional<RoundResult> Allocator::Ask(const JobId* job, WallTime now) {
  TakeBackDeclined();
  std::optional<RoundResult> round;
  if (IsRoundDue(job, now)) {
    round = MakeRound(job, now);
    NoteAnswers(*round);
  }
  if (job != nullptr) {
    // It hears its answer here: a turn for it would begin all over what it does not take.
    granted_.erase(*job);
    refused_.erase(*job);
    if (IsOffer(*job)) {
      offered_.insert(*job);
    }
  }
  return round;
}

bool Allocator::IsRoundDue(const JobId* job, WallTime now) const {
  if (decided_ != state_.news() || (look_again_at_ && *look_again_at_ <= now)) {
    return true;
  }
  if (job == nullptr) {
    return outdated_count_ > 0;
  }
  const GangRecord* const gang = state_.Find(GangNameOf(*job));
  return gang != nullptr && gang->state == GangState::kWaiting && gang->told_at != state_.news();
}

RoundResult Allocator::MakeRound(const JobId* asked, WallTime now) {
  if (decided_ != state_.news()) {
    TakeBackAll();
    granted_.clear();
  }
  RoundOptions options;
  options.refreshed_max = kRefreshedMax;
  options.hold_back = kHoldBack;
  options.asked = asked == nullptr ? "" : GangNameOf(*asked);
  RoundResult result = Round(&state_, now, &memory_, options);
  if (StateRecorder* const recorder = state_.recorder()) {
    recorder->OnRound(now, options, result);
  }
  Commit(result, now, &state_);
  for (const Grant& grant : result.grants) {
    grants_[JobOfGang(grant.gang)] = grant.pods;
    state_.SetPromised(grant.gang, true);
  }
  NoteClaims(result, now);
  ++round_count_;
  decided_ = state_.news();
  outdated_count_ = result.outdated_count;
  look_again_at_ = result.look_again_at;
  return result;
}

void Allocator::NoteAnswers(const RoundResult& result) {
  for (const Grant& grant : result.grants) {
    granted_.insert(JobOfGang(grant.gang));
    refused_.erase(JobOfGang(grant.gang));
  }
  for (const Operation& operation : result.log) {
    if (operation.kind == OperationKind::kClaim) {
      granted_.insert(JobOfGang(operation.gang));
    } else if (operation.kind == OperationKind::kUnclaim) {
      refused_.insert(JobOfGang(operation.gang));
    }
  }
  for (const PermissionNeed& need : result.permissions_needed) {
    std::vector<JobId>& victims = permission_needs_[JobOfGang(need.gang)];
    victims.clear();
    for (const std::string& victim : need.victims) {
      victims.push_back(JobOfGang(victim));
    }
  }
  for (const Refusal& refusal : result.refusals) {
    refused_.insert(JobOfGang(refusal.gang));
  }
}

PlanResult Allocator::AnswerFor(const JobId& key) const {
  if (const auto grant = grants_.find(key); grant != grants_.end()) {
    return PlanOf(grant->second);
  }
  const GangRecord* const gang = state_.Find(GangNameOf(key));
  if (gang != nullptr && gang->state == GangState::kClaiming) {
    return Unschedulable{Constraint::kPreemption, WhatLeaves(key)};
  }
  return gang != nullptr && gang->told.has_value() ? *gang->told : AwaitsRound();
}

// Whether the job has a grant or a claim that it has not taken.
bool Allocator::IsOffer(const JobId& key) const {
  const auto kept = claims_.find(key);
  return grants_.contains(key) || (kept != claims_.end() && !kept->second.is_taken);
}

// As before the round, but that nothing is granted to it until something is new about it.
void Allocator::TakeBackDeclined() {
  for (const JobId& key : std::exchange(offered_, {})) {
    if (!IsOffer(key)) {
      continue;
    }
    if (grants_.erase(key) == 0) {
      DropClaim(key);
    }
    GangRequest request = state_.Find(GangNameOf(key))->request;
    const bool holds_up = request.standing != Standing::kAside;
    request.standing = Standing::kPausing;
    if (holds_up) {
      Resubmit(key, request);
    } else {
      state_.Remove(request.name);
    }
  }
}

void Allocator::TakeBackAll() {
  TakeBackDeclined();
  for (const auto& [key, pods] : std::exchange(grants_, {})) {
    Resubmit(key, GangRequest(state_.Find(GangNameOf(key))->request));
  }
  std::vector<JobId> untaken;
  for (const auto& [key, kept] : claims_) {
    if (!kept.is_taken) {
      untaken.push_back(key);
    }
  }
  for (const JobId& key : untaken) {
    DropClaim(key);
  }
}

// What was kept for it is kept on.
void Allocator::Resubmit(const JobId& key, const GangRequest& request) {
  state_.Submit(request);
  if (const auto kept = claims_.find(key); kept != claims_.end()) {
    const RoomClaim& claim = kept->second.claim;
    state_.Apply({OperationKind::kClaim, request.name, {}, PodsOf(claim)}, claim.since);
  }
}

void Allocator::Reset() {
  TakeBackAll();
  decided_.reset();
  outdated_count_ = 0;
  look_again_at_.reset();
  granted_.clear();
  permission_needs_.clear();
  refused_.clear();
}

}  // namespace lockstep::control
