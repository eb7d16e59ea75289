#include "trainer-runtime/strategy/multi_worker_mirrored.h"

#include <algorithm>
#include <cstddef>

#include "common/base/check.h"

namespace lockstep::runtime {

Result<StepOutcome> MultiWorkerMirrored::Step(const ReplicaStep& step,
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

Status MultiWorkerMirrored::Apply(int64_t update_number) {
  const std::span<const float> sum = Gradients();
  return replicas_->ForEach([&](int replica) {
    Engine& engine = replicas_->engine(replica);
    if (replica != 0) {
      std::copy(sum.begin(), sum.end(), engine.Gradients().begin());
    }
    return engine.ApplyUpdate(update_number);
  });
}

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

}  // namespace lockstep::runtime
