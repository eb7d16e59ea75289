#include "trainer-runtime/strategy/central_storage.h"

namespace lockstep::runtime {

Status CentralStorage::Apply(int64_t update_number) {
  Engine& first = replicas().engine(0);
  LOCKSTEP_RETURN_IF_ERROR(BringGradientsTo(0));
  LOCKSTEP_RETURN_IF_ERROR(first.ApplyUpdate(update_number));
  LOCKSTEP_RETURN_IF_ERROR(first.BringToHost(EnginePart::kState));
  return replicas().SpreadTensors(/*with_slots=*/false);
}

}  // namespace lockstep::runtime
