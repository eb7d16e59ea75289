#pragma once

#include <cstdint>

#include "common/base/prng.h"
#include "common/base/strong_id.h"

namespace lockstep::runtime {

// Equal on no two (seed, step), and the same when the step is computed again. Which elements a rank
// drops follows from this and its samples' places in the global batch, never from its rank: any
// number of ranks drops what one rank would drop.
inline uint64_t DropoutSeed(int64_t seed, Step step) {
  return Mix64(Mix64(static_cast<uint64_t>(seed)) ^ static_cast<uint64_t>(step.value()));
}

}  // namespace lockstep::runtime
