#include "operator/capacity/capacity_sources.h"

#include "operator/capacity/ask_capacity.h"
#include "operator/capacity/kueue_share.h"
#include "operator/capacity/native_binding.h"

namespace lockstep::control {

std::optional<CapacityWait> AwaitCapacity(const GangView& view, DecisionBuilder* builder) {
  if (std::optional<CapacityWait> wait = AwaitKueueShare(view, builder)) {
    return wait;
  }
  return AwaitPodGroups(builder);
}

std::string LoseCapacity(DecisionBuilder* builder) {
  return LoseKueueShare(builder);  // no other takes back what it has granted
}

void TellCapacity(const GangView& view, DecisionBuilder* builder) {
  TellKueue(view, builder);
  TellAutoscaler(builder);
  TellScheduler(builder);
}

}  // namespace lockstep::control
