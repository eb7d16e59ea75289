#pragma once

#include <cstdint>

#include "trainer-runtime/checkpoint/snapshot.h"

namespace lockstep::runtime {

// The rule of the loss scale in Float16: as large as it may be without a gradient that is too large
// for it, found by trying. Source: Micikevicius et al. 2018, with Keras's and PyTorch's numbers.
//
//   2^16  ->  a step with gradients that are not finite: the model stays as it was, half of it
//         ->  2,000 steps in a row with finite ones: twice as much, up to kLossScaleMax
//
// At the floor of 1 nothing is left to halve. Pure.

inline constexpr int64_t kGoodStepsToDouble = 2000;

LossScale AfterGoodStep(LossScale scale);

// After a step in which the model was left as it was.
LossScale AfterSkippedStep(LossScale scale);

inline bool IsAtFloor(const LossScale& scale) {
  return scale.scale <= 1;
}

}  // namespace lockstep::runtime
