#include "trainer-runtime/strategy/multi_worker_mirrored.h"

namespace lockstep::runtime {

Status MultiWorkerMirrored::Apply(int64_t update_number) {
  return replicas().ForEach([&](int replica) -> Status {
    LOCKSTEP_RETURN_IF_ERROR(BringGradientsTo(replica));
    return replicas().engine(replica).ApplyUpdate(update_number);
  });
}

}  // namespace lockstep::runtime
