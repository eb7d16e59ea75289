#include "operator/scheduler/backfill.h"

#include <algorithm>
#include <utility>

namespace lockstep::control {
namespace {

// Gangs for which it is found in a round that a head would start later for them. Choice: a few
// milliseconds' worth on thousands of nodes; who comes after that is not looked at.
constexpr int kFailuresMax = 8;

// Whether `a` comes no later than `b`; without a moment it never comes.
bool IsNoLater(const std::optional<WallTime>& a, const std::optional<WallTime>& b) {
  return !b || (a && *a <= *b);
}

}  // namespace

bool Backfill::Open(QueueIndex queue, Heads heads) {
  const bool are_reserved = std::all_of(heads.begin(), heads.end(), [&](const GangRecord* head) {
    return reservations_.IsReserved(*head);
  });
  has_gap_ = has_gap_ || are_reserved;
  heads_[queue] = are_reserved ? std::optional(std::move(heads)) : std::nullopt;
  return are_reserved;
}

const Backfill::Heads* Backfill::HeadsOf(QueueIndex queue) const {
  const auto heads = heads_.find(queue);
  return heads != heads_.end() && heads->second ? &*heads->second : nullptr;
}

const GangRecord* Backfill::Start(const GangRecord& gang, const PlacedPods& pods) {
  const Operation start{OperationKind::kStart, gang.request.name, {}, pods};
  Heads others = *HeadsOf(*gang.queue);
  std::erase(others, &gang);
  const GangRecord* const head = reservations_.StartBeside(gang, start, others);
  if (head == nullptr) {
    heads_[*gang.queue] = std::move(others);
  } else {
    failed_[KindOf(gang)].push_back({EndOfNow(gang), head});
    ++failure_count_;
  }
  return head;
}

Backfill::Kind Backfill::KindOf(const GangRecord& gang) {
  std::vector<std::size_t> counts;
  for (const PodClass& one : gang.classes) {
    counts.push_back(one.pods.size());
  }
  const TopologyTerms& topology = gang.request.topology;
  return {*gang.queue, gang.shapes, std::move(counts), topology.required, topology.apart};
}

Backfill::End Backfill::EndOfNow(const GangRecord& gang) const {
  return {ExpectedEndOf(gang.request, statement_.now()), EndOf(gang.request, statement_.now())};
}

const GangRecord* Backfill::WhyHopeless(const GangRecord& gang) const {
  if (failure_count_ == kFailuresMax) {
    return HeadsOf(*gang.queue)->front();
  }
  const auto failed = failed_.find(KindOf(gang));
  if (failed == failed_.end()) {
    return nullptr;
  }
  const End end = EndOfNow(gang);
  const auto sooner =
      std::find_if(failed->second.begin(), failed->second.end(), [&](const Failure& one) {
        return IsNoLater(one.end.expected, end.expected) && IsNoLater(one.end.latest, end.latest);
      });
  return sooner == failed->second.end() ? nullptr : sooner->head;
}

}  // namespace lockstep::control
