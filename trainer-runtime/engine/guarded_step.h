#pragma once

#include <cstdint>

#include "common/base/host_device.h"
#include "trainer-runtime/engine/update_element.h"

// What a device needs to know of a step with a guarded update (engine.h), and what it comes to: two
// records in the device's memory. The host writes the first before a step and reads the second
// after it, so nothing in between waits for the host, and work that is recorded once does the steps
// that follow. Plain C++, as a CPU plays the device in tests.

namespace lockstep::runtime {

// Written by the host. Multiples of 8 bytes, so that LibTorch reads the first two as float64.
struct GuardedStep {
  double seed_factor = 1;      // of the loss before backward: gradient scale x loss scale
  double inverse_scale = 1;    // 1 / loss scale, which gradients are multiplied by
  double norm_max = 0;         // longer gradients are shortened to it; infinity: none are
  int32_t skips_overflow = 0;  // 1: refused where some gradient is not finite
  int32_t needs_finite = 0;    // 1: refused where the loss is not finite, or some gradient
  // Of the update's number; one of them is the optimizer's.
  SgdFactors sgd;
  MomentumFactors momentum;
  AdamFactors adam;
};

static_assert(sizeof(GuardedStep) % sizeof(double) == 0);

// The optimizer's own, by type.
LOCKSTEP_HOST_DEVICE inline const SgdFactors& FactorsOf(const GuardedStep& step,
                                                        const SgdFactors& /*kind*/) {
  return step.sgd;
}

LOCKSTEP_HOST_DEVICE inline const MomentumFactors& FactorsOf(const GuardedStep& step,
                                                             const MomentumFactors& /*kind*/) {
  return step.momentum;
}

LOCKSTEP_HOST_DEVICE inline const AdamFactors& FactorsOf(const GuardedStep& step,
                                                         const AdamFactors& /*kind*/) {
  return step.adam;
}

// What becomes of the update.
struct UpdateVerdict {
  int32_t is_refused = 0;
  float clip_factor = 1;  // of the gradients, once the scale is off
};

// Written by the device; all but the verdict are float64 for LibTorch.
struct StepNumbers {
  double loss_sum = 0;
  double correct_count = 0;
  double overflow = 0;  // 1: some gradient was not finite; of steps without a guarded update
  double length = 0;    // of the gradients, times the loss scale; of steps with one, or measured
  UpdateVerdict verdict = {};
};

static_assert(sizeof(StepNumbers) == 5 * sizeof(double));

// No infinity and no NaN.
LOCKSTEP_HOST_DEVICE inline bool IsNumber(double value) {
  return value - value == 0;
}

// What the host would decide. `length` as StepNumbers has it.
LOCKSTEP_HOST_DEVICE inline UpdateVerdict Judge(const GuardedStep& step,
                                                double loss_sum,
                                                double length) {
  const bool has_overflown = step.skips_overflow != 0 && !IsNumber(length);
  const bool has_diverged = step.needs_finite != 0 && !(IsNumber(loss_sum) && IsNumber(length));
  UpdateVerdict verdict = {};
  verdict.is_refused = has_overflown || has_diverged ? 1 : 0;
  const double unscaled = length * step.inverse_scale;
  if (IsNumber(unscaled) && unscaled > step.norm_max) {
    verdict.clip_factor = static_cast<float>(step.norm_max / unscaled);
  }
  return verdict;
}

}  // namespace lockstep::runtime
