#pragma once

#include <cstdint>
#include <span>

#include "trainer-runtime/engine/window.h"

namespace lockstep::runtime {

// Max-pooling, channels last, with relu for the price of a comparison: relu(max(x)) equals
// max(relu(x)), values and gradients, and runs on the smaller side.
//
// Shapes: input [n, in_height, in_width, channels], output [n, out_height, out_width, channels];
// `n` follows from the sizes. The first of equal values wins, as in Keras and PyTorch. NaN goes
// through.
struct MaxPool {
  Window window;
  bool has_relu = false;
};

// `taps` [output size] receives where in its window each output came from, row by row, or
// kNoTap where relu cut it off.
inline constexpr int32_t kNoTap = -1;

void MaxPoolForward(const MaxPool& pool,
                    std::span<const float> input,
                    std::span<float> output,
                    std::span<int32_t> taps);

// Overwrites all of `input_gradient`. `taps` is what MaxPoolForward left.
void MaxPoolBackward(const MaxPool& pool,
                     std::span<const float> output_gradient,
                     std::span<const int32_t> taps,
                     std::span<float> input_gradient);

// Adds to `sums` [channels] what MaxPoolBackward spreads over each channel: each output's gradient
// goes to one input or, cut off by relu, to none. That is the gradient of a bias added just before
// pooling, for a fraction of the memory traffic.
void AddMaxPoolChannelSums(const MaxPool& pool,
                           std::span<const float> output_gradient,
                           std::span<const int32_t> taps,
                           std::span<float> sums);

}  // namespace lockstep::runtime
