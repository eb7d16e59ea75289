#include "trainer-runtime/engine/torch/autograd_loss.h"

#include "trainer-runtime/engine/loss.h"

namespace lockstep::runtime {
namespace {

// One number per output: class numbers become a row that is 1 there.
at::Tensor SpreadLabels(const LossSpec& loss, const at::Tensor& labels, int64_t width) {
  if (!ReadsClassNumbers(loss.type, labels.size(1), width)) {
    return labels.to(at::kDouble);
  }
  // Not at::one_hot, which waits for the device to look at the numbers.
  const at::Tensor rows = at::zeros({labels.size(0), width}, labels.options().dtype(at::kDouble));
  return rows.scatter(1, labels.to(at::kLong), 1.0);
}

at::Tensor Clipped(const at::Tensor& probabilities) {
  return probabilities.clamp(kProbabilityEpsilon, 1 - kProbabilityEpsilon);
}

at::Tensor SumOfLosses(const LossSpec& loss, const at::Tensor& outputs, const at::Tensor& labels) {
  const auto width = static_cast<double>(outputs.size(1));
  switch (loss.type) {
    case LossType::kMeanSquaredError:
      return (outputs - labels).square().sum() / width;
    case LossType::kBinaryCrossentropy: {
      if (loss.from_logits) {
        return at::binary_cross_entropy_with_logits(outputs, labels, {}, {}, at::Reduction::Sum) /
               width;
      }
      const at::Tensor p = Clipped(outputs);
      return -(labels * p.log() + (1 - labels) * (-p).log1p()).sum() / width;
    }
    case LossType::kCategoricalCrossentropy:
    case LossType::kSparseCategoricalCrossentropy:
      break;
  }
  const at::Tensor logarithms =
      loss.from_logits ? outputs.log_softmax(1) : Clipped(outputs / outputs.sum(1, true)).log();
  return -(labels * logarithms).sum();
}

at::Tensor Hits(const LossSpec& loss, const at::Tensor& outputs, const at::Tensor& labels) {
  if (outputs.size(1) > 1) {
    return outputs.argmax(1).eq(labels.argmax(1));
  }
  const bool is_logit = loss.type == LossType::kBinaryCrossentropy && loss.from_logits;
  return labels.eq(outputs.gt(is_logit ? 0 : 0.5).to(at::kDouble));
}

}  // namespace

BatchLoss RecordLoss(const LossSpec& loss, const at::Tensor& outputs, const at::Tensor& labels) {
  // As on the host: few numbers, exact to the last digit that is printed.
  const at::Tensor values = outputs.to(at::kDouble);
  const at::Tensor rows = SpreadLabels(loss, labels, outputs.size(1));
  return {SumOfLosses(loss, values, rows), Hits(loss, values.detach(), rows).sum().to(at::kDouble)};
}

}  // namespace lockstep::runtime
