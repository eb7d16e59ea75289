#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "trainer-runtime/strategy/bucket_plan.h"
#include "trainer-runtime/strategy/strategy.h"

namespace lockstep::runtime {

// What all synchronous strategies have in common: the replicas compute, their gradients are summed
// in the first one's memory on the host, and that sum is summed over all ranks, bucket by bucket in
// the plan's order. Where the reducer sums beside the computing thread, it has each bucket as soon
// as backward has made it on all replicas, if that is in the host's memory or summed where it is.
// The state is the first replica's. How the others get at each update is left to Apply and
// AdoptState.
//
// The gradients of one replica on a GPU stay there, where the reducer sums them there or has none
// to add; there the device also takes an update that comes with the step. All others are brought to
// the host.
class SynchronousStrategy : public Strategy {
 public:
  // `replicas` must outlive this object. `buckets` as PlanBuckets makes them.
  SynchronousStrategy(ReplicaSet* replicas, BucketPlans buckets)
      : replicas_(replicas), buckets_(std::move(buckets)) {}

  ReplicaSet& replicas() final { return *replicas_; }

  Result<StepOutcome> Step(const ReplicaStep& step, const StepExchange& exchange) final;

  Result<std::span<const float>> ReadGradients() final;
  Result<bool> AreGradientsFinite() final;
  Status ClipGradients(double norm_max) final;

  std::vector<TensorView> TakeState() final { return replicas_->engine(0).Tensors(); }

  Status ReadState() final { return replicas_->engine(0).BringToHost(EnginePart::kState); }

 protected:
  // The sum is with the first replica's engine, and so are the host's changes to it.
  Status BringGradientsToFirst();

  std::span<const float> image() { return replicas_->engine(0).Gradients(); }

 private:
  // A step whose update the device takes.
  Result<StepOutcome> StepGuarded(const ReplicaStep& step, const StepExchange& exchange);

  Status SumAfterwards(const StepExchange& exchange);

  ReplicaSet* replicas_;
  BucketPlans buckets_;
  // What the last step came to.
  bool is_on_device_ = false;
  std::optional<double> length_;  // of its gradients, where the step itself has told it
};

}  // namespace lockstep::runtime
