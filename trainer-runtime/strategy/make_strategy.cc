#include "trainer-runtime/strategy/make_strategy.h"

#include <algorithm>
#include <utility>
#include <vector>

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

BucketPlans PlanBuckets(const TrainingSpec& spec, ReplicaSet* replicas) {
  std::vector<int64_t> sizes;
  for (const TensorView& tensor : replicas->engine(0).Tensors()) {
    if (tensor.kind == TensorKind::kParameter) {
      sizes.push_back(static_cast<int64_t>(tensor.data.size()));
    }
  }
  const int64_t bytes_max = spec.communication.bytes_per_pack;
  return {PlanBuckets(sizes, {std::min(kBucketBytesMin, bytes_max), bytes_max}),
          PlanBuckets(sizes, {bytes_max, bytes_max})};
}

std::unique_ptr<Strategy> MakeStrategy(const TrainingSpec& spec, ReplicaSet* replicas) {
  BucketPlans buckets = PlanBuckets(spec, replicas);
  if (spec.variables == VariablePlacement::kCentral) {
    return std::make_unique<CentralStorage>(replicas, std::move(buckets));
  }
  return std::make_unique<MultiWorkerMirrored>(replicas, std::move(buckets));
}

}  // namespace lockstep::runtime
