#pragma once

#include <utility>
#include <vector>

#include "trainer-runtime/strategy/bucket_plan.h"
#include "trainer-runtime/strategy/strategy.h"

namespace lockstep::runtime {

// What all synchronous strategies have in common: the replicas compute, their gradients are summed
// in the first one's memory on the host, and that sum is summed over all ranks, bucket by bucket in
// the plan's order. Where the reducer sums beside the computing thread, it has each bucket as soon
// as backward has made it on all replicas, if that is in the host's memory. The state is the first
// replica's. How the others get at each update is left to Apply and AdoptState.
class SynchronousStrategy : public Strategy {
 public:
  // `replicas` must outlive this object. `buckets` as PlanBuckets makes them.
  SynchronousStrategy(ReplicaSet* replicas, BucketPlans buckets)
      : replicas_(replicas), buckets_(std::move(buckets)) {}

  ReplicaSet& replicas() final { return *replicas_; }

  Result<StepOutcome> Step(const ReplicaStep& step, const StepExchange& exchange) final;

  std::span<float> Gradients() final { return replicas_->engine(0).Gradients(); }

  std::vector<TensorView> TakeState() final { return replicas_->engine(0).Tensors(); }

  Status ReadState() final { return replicas_->engine(0).BringToHost(EnginePart::kState); }

 private:
  Status SumAfterwards(const StepExchange& exchange);

  ReplicaSet* replicas_;
  BucketPlans buckets_;
};

}  // namespace lockstep::runtime
