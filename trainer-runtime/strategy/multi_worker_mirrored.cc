#include "trainer-runtime/strategy/multi_worker_mirrored.h"

#include <algorithm>

namespace lockstep::runtime {

Status MultiWorkerMirrored::Apply(int64_t update_number) {
  const std::span<const float> sum = image();
  return replicas().ForEach([&](int replica) -> Status {
    Engine& engine = replicas().engine(replica);
    if (replica == 0) {
      LOCKSTEP_RETURN_IF_ERROR(BringGradientsToFirst());
    } else {
      std::copy(sum.begin(), sum.end(), engine.Gradients().begin());
      LOCKSTEP_RETURN_IF_ERROR(engine.BringToDevice(EnginePart::kGradients));
    }
    return engine.ApplyUpdate(update_number);
  });
}

}  // namespace lockstep::runtime
