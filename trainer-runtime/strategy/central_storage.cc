#include "trainer-runtime/strategy/central_storage.h"

#include "trainer-runtime/strategy/synchronous_step.h"

namespace lockstep::runtime {

Result<StepOutcome> CentralStorage::Step(const ReplicaStep& step,
                                         GradientReducer* reducer,
                                         Deadline deadline) {
  return TakeSynchronousStep(replicas_, step, buckets_, reducer, deadline);
}

Status CentralStorage::Apply(int64_t update_number) {
  LOCKSTEP_RETURN_IF_ERROR(replicas_->engine(0).ApplyUpdate(update_number));
  replicas_->SpreadTensors(/*with_slots=*/false);
  return OkStatus();
}

}  // namespace lockstep::runtime
