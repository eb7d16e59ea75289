#include "trainer-runtime/engine/optimizer.h"

#include <cmath>
#include <string>

#include "common/base/check.h"
#include "trainer-runtime/engine/vector_clones.h"

namespace lockstep::runtime {
namespace {

// Written as plain loops over restrict pointers: the compiler turns each into one pass over memory,
// which is what bounds them. The same formula as five operations on whole tensors reads and writes
// the buffers twelve times.
LOCKSTEP_VECTOR_CLONES
void AdamLoop(const AdamFactors& factors,
              int64_t count,
              const float* __restrict gradients,
              float* __restrict parameters,
              float* __restrict first,
              float* __restrict second) {
  const AdamFactors f = factors;
  for (int64_t i = 0; i < count; ++i) {
    const UpdatedElement after =
        UpdateElement(f, gradients[i], {parameters[i], first[i], second[i]});
    first[i] = after.first_slot;
    second[i] = after.second_slot;
    parameters[i] = after.parameter;
  }
}

LOCKSTEP_VECTOR_CLONES
void SgdLoop(const SgdFactors& factors,
             int64_t count,
             const float* __restrict gradients,
             float* __restrict parameters) {
  const SgdFactors f = factors;
  for (int64_t i = 0; i < count; ++i) {
    parameters[i] = UpdateElement(f, gradients[i], {.parameter = parameters[i]}).parameter;
  }
}

LOCKSTEP_VECTOR_CLONES
void MomentumLoop(const MomentumFactors& factors,
                  int64_t count,
                  const float* __restrict gradients,
                  float* __restrict parameters,
                  float* __restrict velocities) {
  const MomentumFactors f = factors;
  for (int64_t i = 0; i < count; ++i) {
    const UpdatedElement after = UpdateElement(f, gradients[i], {parameters[i], velocities[i]});
    velocities[i] = after.first_slot;
    parameters[i] = after.parameter;
  }
}

void Apply(const AdamFactors& factors, const FlatState& state) {
  const std::size_t count = state.parameters.size();
  AdamLoop(factors,
           static_cast<int64_t>(count),
           state.gradients.data(),
           state.parameters.data(),
           state.slots.data(),
           state.slots.data() + count);
}

void Apply(const SgdFactors& factors, const FlatState& state) {
  const auto count = static_cast<int64_t>(state.parameters.size());
  SgdLoop(factors, count, state.gradients.data(), state.parameters.data());
}

void Apply(const MomentumFactors& factors, const FlatState& state) {
  const auto count = static_cast<int64_t>(state.parameters.size());
  MomentumLoop(factors, count, state.gradients.data(), state.parameters.data(), state.slots.data());
}

UpdateFactors FactorsOf(const AdamOptimizer& adam, int64_t update_number) {
  const double t = static_cast<double>(update_number);
  const double step_size =
      adam.learning_rate * std::sqrt(1 - std::pow(adam.beta2, t)) / (1 - std::pow(adam.beta1, t));
  return AdamFactors{.step_size = static_cast<float>(step_size),
                     .one_minus_beta1 = static_cast<float>(1 - adam.beta1),
                     .one_minus_beta2 = static_cast<float>(1 - adam.beta2),
                     .epsilon = static_cast<float>(adam.epsilon),
                     .kept = static_cast<float>(1 - adam.learning_rate * adam.weight_decay)};
}

UpdateFactors FactorsOf(const SgdOptimizer& sgd, int64_t /*update_number*/) {
  const auto learning_rate = static_cast<float>(sgd.learning_rate);
  if (sgd.momentum == 0) {
    return SgdFactors{.learning_rate = learning_rate};
  }
  return MomentumFactors{.learning_rate = learning_rate,
                         .momentum = static_cast<float>(sgd.momentum),
                         .nesterov = sgd.nesterov};
}

}  // namespace

std::vector<std::string_view> OptimizerSlotNames(const OptimizerSpec& optimizer) {
  if (std::holds_alternative<AdamOptimizer>(optimizer)) {
    return {"adam_m", "adam_v"};
  }
  if (std::get<SgdOptimizer>(optimizer).momentum != 0) {
    return {"momentum"};
  }
  return {};
}

UpdateFactors MakeUpdateFactors(const OptimizerSpec& optimizer, int64_t update_number) {
  LOCKSTEP_CHECK(update_number >= 1, "update " + std::to_string(update_number));
  return std::visit([&](const auto& kind) { return FactorsOf(kind, update_number); }, optimizer);
}

void ApplyOptimizer(const OptimizerSpec& optimizer, int64_t update_number, const FlatState& state) {
  LOCKSTEP_CHECK(state.gradients.size() == state.parameters.size(),
                 std::to_string(state.gradients.size()) + " gradients");
  LOCKSTEP_CHECK(
      state.slots.size() == OptimizerSlotNames(optimizer).size() * state.parameters.size(),
      std::to_string(state.slots.size()) + " slot values");
  std::visit([&](const auto& factors) { Apply(factors, state); },
             MakeUpdateFactors(optimizer, update_number));
}

}  // namespace lockstep::runtime
