#include "operator/reconcile/backoff.h"

#include <algorithm>

namespace lockstep::control {
namespace {

std::chrono::seconds Doubled(std::chrono::seconds delay, int64_t times, std::chrono::seconds max) {
  for (int64_t i = 0; i < times && delay < max; ++i) {
    delay *= 2;
  }
  return std::min(delay, max);
}

}  // namespace

std::chrono::seconds RollbackDelay(int64_t count, std::chrono::seconds max) {
  return Doubled(kRollbackDelayMin, count - 1, max);
}

std::chrono::seconds RestartDelay(int64_t count) {
  return count <= 1 ? std::chrono::seconds(0)
                    : Doubled(std::chrono::seconds(1), count - 2, kRestartDelayMax);
}

}  // namespace lockstep::control
