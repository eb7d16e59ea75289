#include "trainer-runtime/strategy/synchronous_step.h"

#include <cstddef>
#include <span>

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

Result<StepOutcome> TakeSynchronousStep(ReplicaSet* replicas,
                                        const ReplicaStep& step,
                                        const std::vector<Bucket>& buckets,
                                        GradientReducer* reducer,
                                        Deadline deadline) {
  StepOutcome outcome;
  const TimePoint begin = SteadyNow();
  LOCKSTEP_ASSIGN_OR_RETURN(outcome.sums, replicas->ComputeGradients(step));
  const TimePoint computed = SteadyNow();
  outcome.compute = computed - begin;
  replicas->SumGradients();
  LOCKSTEP_RETURN_IF_ERROR(
      ReduceBuckets(replicas->engine(0).Gradients(), buckets, reducer, deadline));
  outcome.exchange = SteadyNow() - computed;
  return outcome;
}

}  // namespace lockstep::runtime
