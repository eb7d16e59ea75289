#pragma once

#include <utility>
#include <vector>

#include "trainer-runtime/strategy/bucket_plan.h"
#include "trainer-runtime/strategy/strategy.h"

namespace lockstep::runtime {

// Variables and the optimizer's state in one place, computation replicated: the first replica of
// the process holds all of the state and takes each update alone; then it gives the parameters to
// the others, which need no memory for the optimizer.
class CentralStorage final : public Strategy {
 public:
  // `replicas` must outlive this object. Buckets are sent in the plan's order.
  CentralStorage(ReplicaSet* replicas, std::vector<Bucket> buckets)
      : replicas_(replicas), buckets_(std::move(buckets)) {}

  ReplicaSet& replicas() override { return *replicas_; }

  Result<StepOutcome> Step(const ReplicaStep& step,
                           GradientReducer* reducer,
                           Deadline deadline) override;

  std::span<const float> Gradients() override { return replicas_->engine(0).Gradients(); }

  Status Apply(int64_t update_number) override;

  std::vector<TensorView> TakeState() override { return replicas_->engine(0).Tensors(); }

  void AdoptState() override { replicas_->SpreadTensors(/*with_slots=*/false); }

 private:
  ReplicaSet* replicas_;
  std::vector<Bucket> buckets_;
};

}  // namespace lockstep::runtime
