#include "operator/scheduler/quota_turn.h"

#include <utility>

namespace lockstep::control {

void QuotaTurns::Wait(const GangRecord& gang) {
  const QueueIndex queue = *gang.queue;
  const auto first = first_.find(queue);
  const bool is_behind = first != first_.end() &&
                         (first->second.came_in_order || ComesFirst(*first->second.gang, gang));
  if (is_behind || !MayHaveQuota(gang)) {
    return;
  }
  ResourceVector lacks = LacksAtLast(gang);
  for (const GangRecord* const running : state_.RunningIn(queue)) {
    if (!IsOlder(*running, gang)) {
      lacks = Sum(lacks, running->total);
    }
  }
  first_[queue] = {&gang, std::move(lacks), !out_of_order_.contains(queue)};
}

// By what the queue orders its gangs by; those of namespaces by their age.
bool QuotaTurns::ComesFirst(const GangRecord& a, const GangRecord& b) const {
  const bool is_by_priority = state_.queues().SpecOf(*a.queue).ordering == QueueOrdering::kPriority;
  return is_by_priority && a.request.priority != b.request.priority
             ? a.request.priority > b.request.priority
             : IsOlder(a, b);
}

bool QuotaTurns::MayHaveQuota(const GangRecord& gang) const {
  return state_.queues().Allows(*gang.queue, LacksAtLast(gang));
}

// What the queue holds comes free when all have ended, but for what is kept for others.
ResourceVector QuotaTurns::LacksAtLast(const GangRecord& gang) const {
  ResourceVector lacks = Sum(gang.total, Times(state_.queues().HeldBy(*gang.queue), -1));
  for (const GangRecord* const claiming : state_.claiming()) {
    if (claiming->queue == gang.queue) {
      lacks = Sum(lacks, claiming->total);
    }
  }
  return lacks;
}

const GangRecord* QuotaTurns::FirstOf(QueueIndex queue) const {
  const auto first = first_.find(queue);
  return first == first_.end() ? nullptr : first->second.gang;
}

const GangRecord* QuotaTurns::HinderedBy(const GangRecord& gang) const {
  const auto first = first_.find(*gang.queue);
  if (first == first_.end() ||
      (!first->second.came_in_order && !ComesFirst(*first->second.gang, gang))) {
    return nullptr;
  }
  const bool both = state_.queues().Allows(*gang.queue, Sum(gang.total, first->second.lacks));
  return both ? nullptr : first->second.gang;
}

}  // namespace lockstep::control
