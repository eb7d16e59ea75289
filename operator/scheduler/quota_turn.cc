#include "operator/scheduler/quota_turn.h"

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
  ResourceVector lacks = gang.total;
  ResourceVector lacks_at_last = gang.total;
  for (const GangRecord* const running : state_.RunningIn(queue)) {
    lacks_at_last = Less(lacks_at_last, running->total);
    if (IsOlder(*running, gang)) {
      lacks = Less(lacks, running->total);
    }
  }
  for (const GangRecord* const leaving : state_.leaving()) {
    if (leaving->queue == queue) {
      lacks_at_last = Less(lacks_at_last, leaving->total);
      lacks = Less(lacks, leaving->total);
    }
  }
  if (!state_.queues().Check(queue, lacks_at_last).has_value()) {
    first_[queue] = {&gang, lacks};
  }
}

const GangRecord* QuotaTurns::HinderedBy(const GangRecord& gang) const {
  const auto first = first_.find(*gang.queue);
  if (first == first_.end()) {
    return nullptr;
  }
  const bool both = !state_.queues().Check(*gang.queue, Sum(gang.total, first->second.lacks));
  return both ? nullptr : first->second.gang;
}

}  // namespace lockstep::control
