#include "operator/view/scheduler_feed.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/check.h"

namespace lockstep::control {
namespace {

// Holds what a job's pods hold for which it has no place any more, or never had one. No job has
// such a name.
constexpr const char* kLeftPods = " (left)";

// A queue that does not exist: nobody's quota pays for pods that are about to go.
constexpr const char* kNobodysQueue = " ";

UsageByNode HeldBy(const GangRecord& gang, const NodeLedger& nodes) {
  UsageByNode held;
  for (const NodeHold& hold : gang.holds) {
    AddUsage({{nodes.NameOf(hold.node), hold.usage}}, &held);
  }
  return held;
}

// Cheaper where both are in one order, which they mostly are.
bool HoldsJust(const UsageByNode& held, const GangRecord& gang, const NodeLedger& nodes) {
  const bool is_so =
      gang.holds.size() == held.size() &&
      std::equal(
          held.begin(), held.end(), gang.holds.begin(), [&](const auto& one, const NodeHold& hold) {
            return one.second == hold.usage && one.first == nodes.NameOf(hold.node);
          });
  return is_so || HeldBy(gang, nodes) == held;
}

// Whether both are the same to others, once the gang runs.
bool AreAlike(const GangRequest& a, const GangRequest& b) {
  return a.queue == b.queue && a.since == b.since && a.priority == b.priority &&
         a.is_preemptible == b.is_preemptible;
}

}  // namespace

void SchedulerFeed::SetQueues(const std::vector<QueueSpec>& queues) {
  const Status set = state_.SetQueues(queues);
  LOCKSTEP_CHECK(set.ok(), set.error().ToString());
}

void SchedulerFeed::SetStrangers(const std::string& node, const NodeUsage& usage) {
  state_.SetStrangers(node, usage);
}

void SchedulerFeed::SetHolding(const GangRequest& request, const UsageByNode& held) {
  const GangRecord* const known = state_.Find(request.name);
  const bool is_known = known != nullptr && known->state == GangState::kRunning &&
                        AreAlike(known->request, request) &&
                        HoldsJust(held, *known, state_.nodes());
  if (!is_known) {
    state_.SetHolding(request, held, {});
  }
}

void SchedulerFeed::SetWaiting(const GangRequest& request) {
  const GangRecord* const known = state_.Find(request.name);
  const bool is_known =
      known != nullptr && known->request == request &&
      (known->state == GangState::kWaiting || known->state == GangState::kClaiming);
  if (!is_known) {
    state_.Submit(request);
  }
}

void SchedulerFeed::SetJob(const JobId& key, const JobStand& stand) {
  const std::string& name = stand.request.name;
  GangRequest left;
  left.name = name + kLeftPods;
  left.queue = kNobodysQueue;
  left.is_preemptible = false;
  // They go before anything else does, the job's own next gang too.
  left.since = stand.request.since - std::chrono::milliseconds(1);
  if (!stand.is_placed && !stand.held.empty()) {
    SetHolding(left, stand.held);
  } else {
    state_.Remove(left.name);
  }
  if (stand.is_placed) {
    grants_.erase(key);
    offered_.erase(key);
    SetHolding(stand.request, stand.held);
    return;
  }
  const bool is_granted = grants_.contains(key);
  if (stand.wants_place && is_granted && state_.Find(name)->request == stand.request) {
    return;
  }
  grants_.erase(key);
  offered_.erase(key);
  if (stand.wants_place) {
    SetWaiting(stand.request);
  } else {
    state_.Remove(name);
  }
}

void SchedulerFeed::Commit(const RoundResult& result, WallTime now) {
  control::Commit(result, now, &state_);
  for (const Grant& grant : result.grants) {
    grants_[JobOfGang(grant.gang)] = grant.pods;
  }
}

const PlacedPods* SchedulerFeed::GrantOf(const JobId& key) const {
  const auto found = grants_.find(key);
  return found == grants_.end() ? nullptr : &found->second;
}

void SchedulerFeed::NoteOffered(const JobId& key) {
  if (grants_.contains(key)) {
    offered_.insert(key);
  }
}

void SchedulerFeed::TakeBackDeclined() {
  for (const JobId& key : std::exchange(offered_, {})) {
    GangRequest request = state_.Find(GangNameOf(key))->request;
    grants_.erase(key);
    const bool holds_up = request.standing != Standing::kAside;
    request.standing = Standing::kPausing;
    if (holds_up) {
      state_.Submit(request);
    } else {
      state_.Remove(request.name);
    }
  }
}

void SchedulerFeed::TakeBackAll() {
  TakeBackDeclined();
  for (const auto& [key, pods] : std::exchange(grants_, {})) {
    state_.Submit(GangRequest(state_.Find(GangNameOf(key))->request));
  }
}

}  // namespace lockstep::control
