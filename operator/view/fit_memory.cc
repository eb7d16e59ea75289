#include "operator/view/fit_memory.h"

#include "operator/reconcile/build/pod.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/queue.h"

namespace lockstep::control {

bool FitMemory::WouldFit(const JobId& key,
                         const TrainingJob& job,
                         const CopyOnWrite<std::vector<kube::Node>>& nodes) {
  const auto [known, is_new] = fits_.try_emplace(key, true);
  if (is_new) {
    known->second = FitsEmptyCluster(GangOf(job, TopologyOf(job, DnsAddressing{})), nodes);
  }
  return known->second;
}

}  // namespace lockstep::control
