#include "operator/scheduler/quota_turn.h"

#include <utility>

namespace lockstep::control {
namespace {

ResourceVector Less(const ResourceVector& all, const ResourceVector& part) {
  return Sum(all, Times(part, -1));
}

}  // namespace

void QuotaTurns::Wait(const GangRecord& gang) {
  const QueueIndex queue = *gang.queue;
  if (first_.contains(queue)) {
    return;
  }
  // What the queue holds comes free when all have ended, but for what is kept for others.
  ResourceVector lacks = Less(gang.total, state_.queues().HeldBy(queue));
  for (const GangRecord* const claiming : state_.claiming()) {
    if (claiming->queue == queue) {
      lacks = Sum(lacks, claiming->total);
    }
  }
  if (!state_.queues().Allows(queue, lacks)) {
    return;
  }
  for (const GangRecord* const running : state_.RunningIn(queue)) {
    if (!IsOlder(*running, gang)) {
      lacks = Sum(lacks, running->total);
    }
  }
  first_[queue] = {&gang, std::move(lacks)};
}

const GangRecord* QuotaTurns::HinderedBy(const GangRecord& gang) const {
  const auto first = first_.find(*gang.queue);
  if (first == first_.end()) {
    return nullptr;
  }
  const bool both = state_.queues().Allows(*gang.queue, Sum(gang.total, first->second.lacks));
  return both ? nullptr : first->second.gang;
}

}  // namespace lockstep::control
