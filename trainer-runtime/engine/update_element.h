#pragma once

#include <cmath>

#include "common/base/host_device.h"

// What one update does to one element: the only source of this arithmetic, for the loops of
// optimizer.cc and the kernels of cuda/. All operations are IEEE's, each rounded once, so that a
// GPU and every CPU give the same bits as long as none is contracted to a fused multiply-add.

namespace lockstep::runtime {

// One parameter, and what the optimizer keeps beside it; unused slots stay as they are.
struct UpdatedElement {
  float parameter = 0;
  float first_slot = 0;
  float second_slot = 0;
};

struct SgdFactors {
  static constexpr int kSlotCount = 0;
  float learning_rate = 0;
};

struct MomentumFactors {
  static constexpr int kSlotCount = 1;
  float learning_rate = 0;
  float momentum = 0;
  bool nesterov = false;
};

struct AdamFactors {
  static constexpr int kSlotCount = 2;
  float step_size = 0;  // with the bias corrections of this update
  float one_minus_beta1 = 0;
  float one_minus_beta2 = 0;
  float epsilon = 0;
  float kept = 1;  // of the parameter, before the step: 1 - learning rate x weight decay
};

LOCKSTEP_HOST_DEVICE inline UpdatedElement UpdateElement(const SgdFactors& f,
                                                         float gradient,
                                                         UpdatedElement element) {
  element.parameter -= f.learning_rate * gradient;
  return element;
}

LOCKSTEP_HOST_DEVICE inline UpdatedElement UpdateElement(const MomentumFactors& f,
                                                         float gradient,
                                                         UpdatedElement element) {
  const float push = f.learning_rate * gradient;
  const float velocity = f.momentum * element.first_slot - push;
  element.first_slot = velocity;
  element.parameter += f.nesterov ? f.momentum * velocity - push : velocity;
  return element;
}

LOCKSTEP_HOST_DEVICE inline UpdatedElement UpdateElement(const AdamFactors& f,
                                                         float gradient,
                                                         UpdatedElement element) {
  const float m = element.first_slot + (gradient - element.first_slot) * f.one_minus_beta1;
  const float v =
      element.second_slot + (gradient * gradient - element.second_slot) * f.one_minus_beta2;
  element.first_slot = m;
  element.second_slot = v;
  element.parameter = element.parameter * f.kept - f.step_size * m / (std::sqrt(v) + f.epsilon);
  return element;
}

}  // namespace lockstep::runtime
