#include "operator/controller/round_keeper.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/plural.h"
#include "operator/allocator/scheduler_feed.h"
#include "operator/scheduler/cluster_state.h"
#include "operator/scheduler/state_event.h"

namespace lockstep::control {
namespace {

// Refusals that one round puts into words anew because figures have changed. Choice: a
// millisecond's worth on thousands of nodes.
constexpr std::size_t kRefreshedMax = 32;

// As RoundOptions has it. Choice: what ends within minutes is waited for; what may run for days is
// not.
constexpr std::chrono::minutes kHoldBack{10};

// Gangs that a condition names. Choice: one line.
constexpr std::size_t kGangsNamedMax = 5;

Plan PlanOf(const PlacedPods& pods) {
  Plan plan;
  for (const PlacedPod& placed : pods) {
    plan.node_by_pod[placed.pod] = placed.node;
  }
  return plan;
}

// "waits for 2 gangs to end: a/b, a/c"
std::string WhatLeaves(const SchedulerFeed& feed, const JobId& key) {
  const RoomClaim* const claim = feed.ClaimOf(key);
  const std::vector<std::string> names =
      claim == nullptr ? std::vector<std::string>() : feed.StillThere(*claim);
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

}  // namespace

PlanResult RoundKeeper::AnswerFor(const JobId& key, WallTime now, News* news) {
  view_->Reconsider(key);
  SchedulerFeed& feed = view_->Scheduling(now);
  feed.TakeBackDeclined();
  const std::string gang = GangNameOf(key);
  const auto is_up_to_date = [&] {
    const GangRecord* const known = feed.state().Find(gang);
    return decided_ == feed.state().news() && !IsLookDue(now) &&
           (known == nullptr || known->state != GangState::kWaiting ||
            known->told_at == feed.state().news());
  };
  if (!is_up_to_date()) {
    MakeRound(&key, now);
  }
  // This one hears its answer here: a turn for it would begin all over what it does not take.
  granted_.erase(key);
  refused_.erase(key);
  TellOthers(news);
  if (const PlacedPods* const pods = feed.GrantOf(key)) {
    feed.NoteOffered(key);
    return PlanOf(*pods);
  }
  const GangRecord* const known = feed.state().Find(gang);
  if (known != nullptr && known->state == GangState::kClaiming) {
    feed.NoteOffered(key);
    return Unschedulable{Constraint::kPreemption, WhatLeaves(feed, key)};
  }
  if (known != nullptr && known->told.has_value()) {
    return *known->told;
  }
  return AwaitsRound();
}

std::optional<RoomClaim> RoundKeeper::ClaimFor(const JobId& key, WallTime now) {
  const RoomClaim* const kept = view_->Scheduling(now).ClaimOf(key);
  if (kept == nullptr) {
    return std::nullopt;
  }
  RoomClaim claim = *kept;
  for (ClaimedGang& gang : claim.gangs) {
    const StoredJob* const stored = view_->FindJob(JobOfGang(gang.job));
    if (gang.uid.empty() && stored != nullptr) {
      gang.uid = stored->job.metadata.uid;
      gang.attempt = stored->job.status.attempt;
    }
  }
  return claim;
}

void RoundKeeper::Plan(WallTime now, News* news) {
  SchedulerFeed& feed = view_->Scheduling(now);
  feed.TakeBackDeclined();
  if (decided_ != feed.state().news() || outdated_count_ > 0 || IsLookDue(now)) {
    MakeRound(nullptr, now);
  }
  TellOthers(news);
  news->urgent.insert(refused_.begin(), refused_.end());
  refused_.clear();
  const std::vector<JobId> moved = line_.TakeDue(now);
  news->urgent.insert(moved.begin(), moved.end());
  news->frees_room = news->frees_room || outdated_count_ > 0;
}

std::optional<WallTime> RoundKeeper::look_again_at() const {
  std::optional<WallTime> first = look_again_at_;
  for (const std::optional<WallTime>& other : {view_->StuckFrom(), line_.NextDue()}) {
    if (other.has_value()) {
      first = std::min(*other, first.value_or(*other));
    }
  }
  return first;
}

void RoundKeeper::Settle(WallTime now, News* news) {
  if (!view_->has_offers()) {
    return;
  }
  SchedulerFeed& feed = view_->Scheduling(now);
  const uint64_t before = feed.state().news();
  feed.TakeBackDeclined();
  news->frees_room = news->frees_room || feed.state().news() != before;
}

void RoundKeeper::Reset(WallTime now) {
  view_->Scheduling(now).TakeBackAll();
  decided_.reset();
  outdated_count_ = 0;
  look_again_at_.reset();
  granted_.clear();
  permission_needs_.clear();
  refused_.clear();
  line_.Clear();
}

// Null `asked`: nobody in particular.
void RoundKeeper::MakeRound(const JobId* asked, WallTime now) {
  SchedulerFeed& feed = view_->Scheduling(now);
  if (decided_ != feed.state().news()) {
    feed.TakeBackAll();
    granted_.clear();
  }
  RoundOptions options;
  options.refreshed_max = kRefreshedMax;
  options.hold_back = kHoldBack;
  options.asked = asked == nullptr ? "" : GangNameOf(*asked);
  const TimePoint begin = timing_.clock == nullptr ? TimePoint{} : timing_.clock->Now();
  const RoundResult result = Round(feed.mutable_state(), now, &memory_, options);
  if (StateRecorder* const recorder = feed.state().recorder()) {
    recorder->OnRound(now, options, result);
  }
  feed.Commit(result, now);
  line_.Set(result.line, now);
  if (timing_.clock != nullptr) {
    timing_.publisher->OnRound(timing_.clock->Now() - begin);
  }
  ++round_count_;
  decided_ = feed.state().news();
  outdated_count_ = result.outdated_count;
  look_again_at_ = result.look_again_at;
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

// Those that were granted something have their turns at once.
void RoundKeeper::TellOthers(News* news) {
  news->urgent.insert(granted_.begin(), granted_.end());
  granted_.clear();
}

}  // namespace lockstep::control
