#include "trainer-runtime/strategy/make_strategy.h"

#include <utility>
#include <vector>

#include "trainer-runtime/strategy/bucket_plan.h"
#include "trainer-runtime/strategy/central_storage.h"
#include "trainer-runtime/strategy/multi_worker_mirrored.h"

namespace lockstep::runtime {
namespace {

// What an engine is made by that computes gradients and never takes an update: this optimizer keeps
// nothing.
TrainingSpec WithoutOptimizerState(TrainingSpec spec) {
  spec.optimizer = SgdOptimizer{};
  return spec;
}

}  // namespace

Result<std::unique_ptr<ReplicaSet>> MakeReplicas(const TrainingSpec& spec,
                                                 const EngineMaker& make) {
  const bool is_central = spec.variables == VariablePlacement::kCentral;
  std::vector<std::unique_ptr<Engine>> engines;
  for (int64_t replica = 0; replica < spec.replicas; ++replica) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                              make(is_central && replica > 0 ? WithoutOptimizerState(spec) : spec));
    engines.push_back(std::move(engine));
  }
  return std::make_unique<ReplicaSet>(std::move(engines));
}

std::unique_ptr<Strategy> MakeStrategy(const TrainingSpec& spec, ReplicaSet* replicas) {
  const auto element_count = static_cast<int64_t>(replicas->engine(0).Gradients().size());
  std::vector<Bucket> buckets = PlanBuckets(element_count, spec.communication.bytes_per_pack);
  if (spec.variables == VariablePlacement::kCentral) {
    return std::make_unique<CentralStorage>(replicas, std::move(buckets));
  }
  return std::make_unique<MultiWorkerMirrored>(replicas, std::move(buckets));
}

}  // namespace lockstep::runtime
