#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/update_element.h"

namespace lockstep::runtime {

// The optimizer's names of the values it keeps beside each parameter, in the order of their slots:
// {"adam_m", "adam_v"}, {"momentum"} or none.
std::vector<std::string_view> OptimizerSlotNames(const OptimizerSpec& optimizer);

// All trainable numbers of a model in flat buffers, so that one loop updates them.
// Shapes: parameters [n], gradients [n], slots [slot count x n], slot after slot.
struct FlatState {
  std::span<float> parameters;
  std::span<const float> gradients;
  std::span<float> slots;
};

using UpdateFactors = std::variant<SgdFactors, MomentumFactors, AdamFactors>;

// What is the same for all elements of one update. `update_number` counts from 1.
UpdateFactors MakeUpdateFactors(const OptimizerSpec& optimizer, int64_t update_number);

// One update of parameters and slots. `update_number` counts from 1.
//
// Every element sees the same IEEE operations in the same order on every CPU (no contraction to
// fused multiply-add), so ranks on different hardware stay bitwise equal.
// Source: Keras's SGD, Adam and AdamW (Loshchilov, Hutter 2019). Adam's epsilon is added after the
// bias correction of the step size ("epsilon hat" in Kingma, Ba 2014, section 2), as Keras does and
// PyTorch does not.
void ApplyOptimizer(const OptimizerSpec& optimizer, int64_t update_number, const FlatState& state);

}  // namespace lockstep::runtime
