#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/base/result.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/engine.h"

namespace lockstep::runtime {

// What the network made of a batch, and what it should have made.
// Shapes: outputs [sample_count, output_width], labels [sample_count, label_width], row-major.
struct Predictions {
  std::span<const float> outputs;
  std::span<const float> labels;
  int64_t sample_count = 0;
  int64_t output_width = 1;
};

// How far probabilities are kept from 0 and 1 before a logarithm. Source: Keras's backend epsilon.
inline constexpr double kProbabilityEpsilon = 1e-7;

// Sums the samples' losses and counts the hits. Where `output_gradients` [outputs.size()] is not
// empty it receives gradient_scale x d(sum of losses)/d(output).
//
// One sample's loss is Keras's: the mean over outputs for MeanSquaredError and BinaryCrossentropy,
// the sum over classes for the other two. With from_logits the loss applies its own sigmoid or
// softmax, without losing precision at the ends; otherwise outputs are probabilities, kept
// kProbabilityEpsilon away from 0 and 1. CategoricalCrossentropy reads class numbers where labels
// have width 1 and outputs do not.
//
// A hit is what Keras's "accuracy" chooses by shapes: one output rounds to the label; several
// outputs have their largest where the labels have theirs, or at the class number. (For one output
// with from_logits the rounding is done on the probability; Keras rounds the logit.)
//
// Errors: kInvalidArgument, naming the sample: a label width that fits neither, a class number
// out of range or not whole, a label of BinaryCrossentropy outside 0 to 1. Thread: any.
Result<StepResult> ComputeLoss(const LossSpec& loss,
                               const Predictions& predictions,
                               double gradient_scale,
                               std::span<float> output_gradients);

// Whether ComputeLoss would take these labels. Errors: those of it. Thread: any.
Status CheckLabels(const LossSpec& loss,
                   std::span<const float> labels,
                   int64_t sample_count,
                   int64_t output_width);

// The loss that gives the same values on the inputs of a network's last activation, where there is
// one: sigmoid before BinaryCrossentropy, softmax before the other two (and linear before any).
// A caller then leaves the activation out and loses no precision where it saturates; Keras does the
// same. Nullopt where the activation has to be computed.
std::optional<LossSpec> AbsorbActivation(const LossSpec& loss, Activation last);

}  // namespace lockstep::runtime
