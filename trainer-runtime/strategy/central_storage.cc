#include "trainer-runtime/strategy/central_storage.h"

namespace lockstep::runtime {

Status CentralStorage::Apply(int64_t update_number) {
  LOCKSTEP_RETURN_IF_ERROR(replicas().engine(0).ApplyUpdate(update_number));
  replicas().SpreadTensors(/*with_slots=*/false);
  return OkStatus();
}

}  // namespace lockstep::runtime
