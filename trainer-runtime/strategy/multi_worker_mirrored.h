#pragma once

#include <utility>
#include <vector>

#include "trainer-runtime/strategy/bucket_plan.h"
#include "trainer-runtime/strategy/strategy.h"

namespace lockstep::runtime {

// Synchronous data parallelism: every replica of every rank holds all variables, computes the
// gradient of its share of the global batch, and applies the same mean gradient at the same step.
// With one rank this is Mirrored.
class MultiWorkerMirrored final : public Strategy {
 public:
  // `replicas` must outlive this object. Buckets are sent in the plan's order.
  MultiWorkerMirrored(ReplicaSet* replicas, std::vector<Bucket> buckets)
      : replicas_(replicas), buckets_(std::move(buckets)) {}

  ReplicaSet& replicas() override { return *replicas_; }

  Result<StepOutcome> Step(const ReplicaStep& step,
                           GradientReducer* reducer,
                           Deadline deadline) override;

  std::span<const float> Gradients() override { return replicas_->engine(0).Gradients(); }

  Status Apply(int64_t update_number) override;

  std::vector<TensorView> TakeState() override { return replicas_->engine(0).Tensors(); }

  void AdoptState() override { replicas_->SpreadTensors(/*with_slots=*/true); }

 private:
  ReplicaSet* replicas_;
  std::vector<Bucket> buckets_;
};

}  // namespace lockstep::runtime
