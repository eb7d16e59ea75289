#include "operator/allocator/allocator.h"

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

std::string Allocator::LeftPodsOf(const std::string& gang) {
  return gang + kLeftPodsSuffix;
}

std::string Allocator::GoingPodsOf(const std::string& gang) {
  return gang + kGoingPodsSuffix;
}

UsageByNode Allocator::HeldBy(const GangRecord& gang) const {
  UsageByNode held;
  for (const NodeHold& hold : gang.holds) {
    AddUsage({{state_.nodes().NameOf(hold.node), hold.usage}}, &held);
  }
  return held;
}

// Cheaper where both are in one order, which they mostly are.
bool Allocator::HoldsJust(const UsageByNode& held, const GangRecord& gang) const {
  const bool is_so =
      gang.holds.size() == held.size() &&
      std::equal(
          held.begin(), held.end(), gang.holds.begin(), [&](const auto& one, const NodeHold& hold) {
            return one.second == hold.usage && one.first == state_.nodes().NameOf(hold.node);
          });
  return is_so || HeldBy(gang) == held;
}

void Allocator::SetQueues(const std::vector<QueueSpec>& queues,
                          std::map<std::string, std::string> unserved) {
  const Status set = state_.SetQueues(queues, std::move(unserved));
  LOCKSTEP_CHECK(set.ok(), set.error().ToString());
}

void Allocator::SetStrangers(const std::string& node, const NodeUsage& usage) {
  state_.SetStrangers(node, usage);
}

void Allocator::SetHolding(const GangRequest& request, const Held& held) {
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

void Allocator::SetWaiting(const GangRequest& request) {
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
std::string Allocator::QueueOfPodsWithoutPlaces(const JobStand& stand) const {
  const std::string& name = stand.request.name;
  std::string queue = stand.request.queue;
  for (const std::string& gang : {name, GoingPodsOf(name), LeftPodsOf(name)}) {
    const GangRecord* const known = queue.empty() ? state_.Find(gang) : nullptr;
    queue = known != nullptr ? known->request.queue : queue;
  }
  return queue.starts_with(kOffTheBill) ? queue : kOffTheBill + queue;
}

// They go before anything else does, the job's own next gang too.
void Allocator::SetPodsWithoutPlaces(const JobStand& stand) {
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

void Allocator::SetJob(const JobId& key, const JobStand& stand) {
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

}  // namespace lockstep::control
