#include "trainer-runtime/strategy/multi_worker_mirrored.h"

#include <algorithm>

#include "trainer-runtime/strategy/synchronous_step.h"

namespace lockstep::runtime {

Result<StepOutcome> MultiWorkerMirrored::Step(const ReplicaStep& step,
                                              GradientReducer* reducer,
                                              Deadline deadline) {
  return TakeSynchronousStep(replicas_, step, buckets_, reducer, deadline);
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

}  // namespace lockstep::runtime
