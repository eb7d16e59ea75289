#pragma once

#include <span>

#include "common/contract/training/training_spec.h"

namespace lockstep::runtime {

// How a network computes in numbers of 16 bits: what goes into a matrix product or a convolution is
// rounded to them, the sums within it are float32, and what comes out is rounded again. That is
// what a GPU's tensor cores do; here the rounded numbers stay in float32's memory, as no CPU that
// the engine runs on multiplies Float16, so training in them takes no less time.
//
// Gradients of weights are the one product that is not rounded: they are sums over samples, so each
// replica's part would be rounded, or too large, in another way than the whole, and what a step
// comes to would depend on the number of replicas.

// Rounds each value to the nearest that `precision` has, ties to even; too large ones become
// infinity, a NaN stays one. Float32: nothing changes. Source: IEEE 754-2019 binary16; bfloat16 is
// the upper half of a float32.
void RoundTo(Precision precision, std::span<float> values);

// Takes the loss scale, a power of two, off gradients. Returns whether all are finite numbers.
bool TakeOffScale(double loss_scale, std::span<float> gradients);

}  // namespace lockstep::runtime
