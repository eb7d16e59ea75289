#pragma once

#include <ATen/ATen.h>

#include "common/contract/training/training_spec.h"

namespace lockstep::runtime {

// ComputeLoss (loss.h) as recorded operations, on any device and without waiting for it. The labels
// must have passed CheckLabels.
struct BatchLoss {
  at::Tensor loss_sum;       // float64 []; to be derived
  at::Tensor correct_count;  // float64 []
};

// Shapes: outputs [n, output width], labels [n, label width], float32.
BatchLoss RecordLoss(const LossSpec& loss, const at::Tensor& outputs, const at::Tensor& labels);

}  // namespace lockstep::runtime
