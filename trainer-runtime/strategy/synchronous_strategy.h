#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "trainer-runtime/strategy/bucket_plan.h"
#include "trainer-runtime/strategy/strategy.h"

namespace lockstep::runtime {

// What all synchronous strategies have in common: the replicas compute, and their gradients are
// summed over all replicas of all ranks, bucket by bucket in the plan's order. Where the reducer
// sums beside the computing thread, it has each bucket as soon as backward has made it on all
// replicas, if that is in the host's memory or summed where it is. The state is the first
// replica's. How the others get at each update is left to Apply and AdoptState.
//
// Gradients on GPUs stay there, where the reducer sums them there or has none to add: all replicas
// hold the sum then; where there is only one, its device also takes an update that comes with the
// step. All others are brought to the host and summed in the first one's memory, and that sum goes
// over the ranks.
class SynchronousStrategy : public Strategy {
 public:
  // `replicas` must outlive this object. `buckets` as PlanBuckets makes them.
  SynchronousStrategy(ReplicaSet* replicas, BucketPlans buckets)
      : replicas_(replicas), buckets_(std::move(buckets)), begins_(BeginsOf(buckets_.beside)) {}

  ReplicaSet& replicas() final { return *replicas_; }

  Result<StepOutcome> Step(const ReplicaStep& step, const StepExchange& exchange) final;

  Result<std::span<const float>> ReadGradients() final;
  Result<bool> AreGradientsFinite() final;
  Status ClipGradients(double norm_max) final;

  std::vector<TensorView> TakeState() final { return replicas_->engine(0).Tensors(); }

  Status ReadState() final { return replicas_->engine(0).BringToHost(EnginePart::kState); }

 protected:
  // The sum is with that replica's engine, and so are the host's changes to it. Thread: the
  // replica's.
  Status BringGradientsTo(int replica);

 private:
  std::span<const float> image() { return replicas_->engine(0).Gradients(); }

  // The rest of a step whose gradients are summed where they are, from which the host waits once.
  Result<StepOutcome> FinishOnDevices(const StepExchange& exchange, TimePoint begin);

  // A step whose update the device takes.
  Result<StepOutcome> StepGuarded(const ReplicaStep& step, const StepExchange& exchange);

  Status SumAfterwards(const StepExchange& exchange);

  ReplicaSet* replicas_;
  BucketPlans buckets_;
  std::vector<int64_t> begins_;  // of those beside backward
  // What the last step came to.
  bool is_on_device_ = false;
  double length_ = 0;  // of its gradients, on a device: the step itself has told it
};

}  // namespace lockstep::runtime
