#include "operator/reconcile/policy/backoff.h"

#include <algorithm>

namespace lockstep::control {

std::chrono::seconds RollbackDelay(int64_t count) {
  std::chrono::seconds delay = kRollbackDelayMin;
  for (int64_t i = 1; i < count && delay < kRollbackDelayMax; ++i) {
    delay *= 2;
  }
  return std::min(delay, kRollbackDelayMax);
}

}  // namespace lockstep::control
