#pragma once

#include <cstdint>
#include <span>

namespace lockstep::runtime {

// How many numbers feed one output of a kernel, and how many outputs one number feeds.
struct Fan {
  int64_t in = 1;
  int64_t out = 1;
};

// Fills `kernel` with uniform numbers in [-limit, limit), limit = sqrt(6 / (fan.in + fan.out)).
// Equal (seed, layer_index) give equal bits on every machine and with every numeric library.
// Source: Glorot, Bengio 2010, equation 16; the default of Keras's layers.
void FillGlorotUniform(uint64_t seed, int64_t layer_index, Fan fan, std::span<float> kernel);

}  // namespace lockstep::runtime
