#include "operator/allocator/scheduler_feed.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/check.h"

namespace lockstep::control {
namespace {

// Behind the name of a gang: under that is held what pods of its job hold that go by themselves.
constexpr const char* kGoingPodsSuffix = " (going)";

// The same of those that stay though it has no place for them, as they are stuck.
constexpr const char* kLeftPodsSuffix = " (left)";

// Whether both are the same to others, once the gang runs.
bool AreAlike(const GangRequest& a, const GangRequest& b) {
  return a.queue == b.queue && a.since == b.since && a.priority == b.priority &&
         a.is_preemptible == b.is_preemptible;
}

// Asks and answers of servers go on while the gang waits: what that was told stands.
bool AreAlikeButForAnswers(const GangRequest& known, GangRequest request) {
  request.asking = known.asking;
  request.permission = known.permission;
  return known == request;
}

}  // namespace

std::string SchedulerFeed::LeftPodsOf(const std::string& gang) {
  return gang + kLeftPodsSuffix;
}

std::string SchedulerFeed::GoingPodsOf(const std::string& gang) {
  return gang + kGoingPodsSuffix;
}

UsageByNode SchedulerFeed::HeldBy(const GangRecord& gang) const {
  UsageByNode held;
  for (const NodeHold& hold : gang.holds) {
    AddUsage({{state_.nodes().NameOf(hold.node), hold.usage}}, &held);
  }
  return held;
}

// Cheaper where both are in one order, which they mostly are.
bool SchedulerFeed::HoldsJust(const UsageByNode& held, const GangRecord& gang) const {
  const bool is_so =
      gang.holds.size() == held.size() &&
      std::equal(
          held.begin(), held.end(), gang.holds.begin(), [&](const auto& one, const NodeHold& hold) {
            return one.second == hold.usage && one.first == state_.nodes().NameOf(hold.node);
          });
  return is_so || HeldBy(gang) == held;
}

void SchedulerFeed::SetQueues(const std::vector<QueueSpec>& queues,
                              std::map<std::string, std::string> unserved) {
  const Status set = state_.SetQueues(queues, std::move(unserved));
  LOCKSTEP_CHECK(set.ok(), set.error().ToString());
}

void SchedulerFeed::SetStrangers(const std::string& node, const NodeUsage& usage) {
  state_.SetStrangers(node, usage);
}

void SchedulerFeed::SetHolding(const GangRequest& request, const Held& held) {
  const std::string* const goes_for = held.goes_for;
  const GangRecord* const known = state_.Find(request.name);
  const bool stands_so =
      known != nullptr && (goes_for == nullptr ? known->state == GangState::kRunning
                                               : known->state == GangState::kLeaving &&
                                                     known->beneficiary == *goes_for);
  if (stands_so && AreAlike(known->request, request) && HoldsJust(held.usage, *known) &&
      known->run.stops_at == held.run.stops_at) {
    if (known->run.saved_at != held.run.saved_at) {
      state_.SetSaved(request.name, held.run.saved_at);
    }
    return;
  }
  state_.SetHolding(request, held.usage, held.run);
  if (goes_for != nullptr) {
    state_.Apply({OperationKind::kEvict, request.name, *goes_for}, WallTime{});
  }
}

void SchedulerFeed::SetWaiting(const GangRequest& request) {
  const GangRecord* const known = state_.Find(request.name);
  const bool waits = known != nullptr &&
                     (known->state == GangState::kWaiting || known->state == GangState::kClaiming);
  if (!waits || !AreAlikeButForAnswers(known->request, request)) {
    state_.Submit(request);
    return;
  }
  if (known->request.asking != request.asking) {
    state_.SetAsking(request.name, request.asking);
  }
  if (known->request.permission != request.permission) {
    state_.SetPermission(request.name, request.permission);
  }
}

// Nobody's quota pays for pods that are about to go. They are used where their job is, has ended or
// is suspended, or where it last was if it is gone.
std::string SchedulerFeed::QueueOfPodsWithoutPlaces(const JobStand& stand) const {
  const std::string& name = stand.request.name;
  std::string queue = stand.request.queue;
  for (const std::string& gang : {name, GoingPodsOf(name), LeftPodsOf(name)}) {
    const GangRecord* const known = queue.empty() ? state_.Find(gang) : nullptr;
    queue = known != nullptr ? known->request.queue : queue;
  }
  return queue.starts_with(kOffTheBill) ? queue : kOffTheBill + queue;
}

// They go before anything else does, the job's own next gang too.
void SchedulerFeed::SetPodsWithoutPlaces(const JobStand& stand) {
  const std::string nobody;
  const RunTerms none;
  const std::string queue = QueueOfPodsWithoutPlaces(stand);
  const auto set = [&](const std::string& name, const UsageByNode& usage, const std::string* goes) {
    if (usage.empty()) {
      state_.Remove(name);
      return;
    }
    GangRequest request;
    request.name = name;
    request.queue = queue;
    request.is_preemptible = false;
    request.since = stand.request.since - std::chrono::milliseconds(1);
    SetHolding(request, {usage, none, goes});
  };
  UsageByNode left = stand.stuck;
  if (!stand.is_placed) {
    AddUsage(stand.held, &left);
  }
  set(LeftPodsOf(stand.request.name), left, nullptr);
  set(GoingPodsOf(stand.request.name), stand.going, &nobody);
}

void SchedulerFeed::SetJob(const JobId& key, const JobStand& stand) {
  const std::string& name = stand.request.name;
  SetPodsWithoutPlaces(stand);
  if (stand.is_placed) {
    grants_.erase(key);
    offered_.erase(key);
    voided_.erase(key);
    DropClaim(key);
    const std::string claimant = ClaimantOn(stand);
    SetHolding(stand.request, {stand.held, stand.run, claimant.empty() ? nullptr : &claimant});
    state_.SetPromised(name, stand.is_promised);
    return;
  }
  const bool is_granted = grants_.contains(key);
  if (stand.wants_place && is_granted && state_.Find(name)->request == stand.request) {
    return;
  }
  if (is_granted) {
    grants_.erase(key);
    offered_.erase(key);
  }
  if (stand.wants_place) {
    SetWaiting(stand.request);
    HeedClaim(key, stand);
  } else {
    offered_.erase(key);
    voided_.erase(key);
    DropClaim(key);
    state_.Remove(name);
  }
}

void SchedulerFeed::Commit(const RoundResult& result, WallTime now) {
  control::Commit(result, now, &state_);
  for (const Grant& grant : result.grants) {
    grants_[JobOfGang(grant.gang)] = grant.pods;
    state_.SetPromised(grant.gang, true);
  }
  NoteClaims(result, now);
}

const PlacedPods* SchedulerFeed::GrantOf(const JobId& key) const {
  const auto found = grants_.find(key);
  return found == grants_.end() ? nullptr : &found->second;
}

void SchedulerFeed::NoteOffered(const JobId& key) {
  const auto kept = claims_.find(key);
  if (grants_.contains(key) || (kept != claims_.end() && !kept->second.is_taken)) {
    offered_.insert(key);
  }
}

// As before the round, but that nothing is granted to it until something is new about it.
void SchedulerFeed::TakeBackDeclined() {
  for (const JobId& key : std::exchange(offered_, {})) {
    const auto kept = claims_.find(key);
    const bool is_granted = grants_.erase(key) > 0;
    if (!is_granted && (kept == claims_.end() || kept->second.is_taken)) {
      continue;
    }
    if (!is_granted) {
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

void SchedulerFeed::TakeBackAll() {
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
void SchedulerFeed::Resubmit(const JobId& key, const GangRequest& request) {
  state_.Submit(request);
  if (const auto kept = claims_.find(key); kept != claims_.end()) {
    const RoomClaim& claim = kept->second.claim;
    state_.Apply({OperationKind::kClaim, request.name, {}, PodsOf(claim)}, claim.since);
  }
}

}  // namespace lockstep::control
