#include "operator/controller/round_keeper.h"

#include <algorithm>
#include <vector>

namespace lockstep::control {

Allocator& RoundKeeper::MakeRound(const JobId* job, WallTime now, News* news) {
  Allocator& allocator = view_->Scheduling(now);
  const TimePoint begin = timing_.clock == nullptr ? TimePoint{} : timing_.clock->Now();
  if (const std::optional<RoundResult> round = allocator.Ask(job, now)) {
    line_.Set(round->line, now);
    if (timing_.clock != nullptr) {
      timing_.publisher->OnRound(timing_.clock->Now() - begin);
    }
  }
  news->urgent.merge(allocator.TakeGranted());
  return allocator;
}

void RoundKeeper::Ask(const JobId& key, WallTime now, News* news) {
  view_->Reconsider(key);
  MakeRound(&key, now, news);
  line_.Tell(key, now);
}

std::optional<RoomClaim> RoundKeeper::ClaimFor(const JobId& key) const {
  const RoomClaim* const kept = view_->allocator().ClaimOf(key);
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
  Allocator& allocator = MakeRound(nullptr, now, news);
  news->urgent.merge(allocator.TakeRefused());
  const std::vector<JobId> moved = line_.TakeDue(now);
  news->urgent.insert(moved.begin(), moved.end());
  news->frees_room = news->frees_room || allocator.outdated_count() > 0;
}

std::optional<WallTime> RoundKeeper::look_again_at() const {
  std::optional<WallTime> first = view_->allocator().look_again_at();
  for (const std::optional<WallTime>& other : {view_->StuckFrom(), line_.NextDue()}) {
    if (other.has_value()) {
      first = std::min(*other, first.value_or(*other));
    }
  }
  return first;
}

void RoundKeeper::Settle(WallTime now, News* news) {
  if (!view_->allocator().has_offers()) {
    return;
  }
  Allocator& allocator = view_->Scheduling(now);
  const uint64_t before = allocator.state().news();
  allocator.TakeBackDeclined();
  news->frees_room = news->frees_room || allocator.state().news() != before;
}

void RoundKeeper::Reset(WallTime now) {
  view_->Scheduling(now).Reset();
  line_.Clear();
}

}  // namespace lockstep::control
