#include "trainer-runtime/strategy/synchronous_strategy.h"

#include <cstddef>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

Status ReduceBuckets(std::span<float> gradients,
                     const std::vector<Bucket>& buckets,
                     GradientReducer* reducer,
                     Deadline deadline) {
  for (const Bucket& bucket : buckets) {
    const auto offset = static_cast<std::size_t>(bucket.element_offset);
    const auto count = static_cast<std::size_t>(bucket.element_count);
    LOCKSTEP_CHECK(offset + count <= gradients.size(), "bucket plan exceeds the gradients");
    LOCKSTEP_RETURN_IF_ERROR(reducer->Enqueue(gradients.subspan(offset, count), deadline));
  }
  return reducer->Finish(deadline);
}

}  // namespace

Result<StepOutcome> SynchronousStrategy::Step(const ReplicaStep& step,
                                              GradientReducer* reducer,
                                              Deadline deadline) {
  StepOutcome outcome;
  const TimePoint begin = SteadyNow();
  LOCKSTEP_ASSIGN_OR_RETURN(outcome.sums, replicas_->ComputeGradients(step));
  const TimePoint computed = SteadyNow();
  outcome.compute = computed - begin;
  replicas_->SumGradients();
  LOCKSTEP_RETURN_IF_ERROR(
      ReduceBuckets(replicas_->engine(0).Gradients(), buckets_, reducer, deadline));
  outcome.exchange = SteadyNow() - computed;
  return outcome;
}

}  // namespace lockstep::runtime
