#include "trainer-runtime/train/loss_scale.h"

#include <algorithm>

namespace lockstep::runtime {

LossScale AfterGoodStep(LossScale scale) {
  if (++scale.good_steps == kGoodStepsToDouble) {
    scale.scale = std::min(scale.scale * 2, kLossScaleMax);
    scale.good_steps = 0;
  }
  return scale;
}

LossScale AfterSkippedStep(LossScale scale) {
  scale.scale = std::max<int64_t>(1, scale.scale / 2);
  scale.good_steps = 0;
  ++scale.steps_skipped;
  return scale;
}

}  // namespace lockstep::runtime
