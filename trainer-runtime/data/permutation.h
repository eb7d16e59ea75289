#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::runtime {

// The order in which one data epoch visits the samples: element p is the id of the sample at
// position p. With `shuffle` a uniform permutation that depends on (seed, data_epoch, sample_count)
// alone, so every rank computes the same one; without it the identity. Pure.
// Shapes: result [sample_count]. Precondition (checked): sample_count >= 0.
// Source: Fisher and Yates' shuffle, Durstenfeld's form.
std::vector<int64_t> EpochPermutation(int64_t seed,
                                      int64_t data_epoch,
                                      int64_t sample_count,
                                      bool shuffle);

}  // namespace lockstep::runtime
