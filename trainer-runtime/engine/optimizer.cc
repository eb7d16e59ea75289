#include "trainer-runtime/engine/optimizer.h"

#include <cmath>
#include <string>
#include <variant>

#include "common/base/check.h"
#include "trainer-runtime/engine/vector_clones.h"

namespace lockstep::runtime {
namespace {

struct AdamFactors {
  float step_size = 0;
  float one_minus_beta1 = 0;
  float one_minus_beta2 = 0;
  float epsilon = 0;
};

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
    const float gradient = gradients[i];
    const float m = first[i] + (gradient - first[i]) * f.one_minus_beta1;
    const float v = second[i] + (gradient * gradient - second[i]) * f.one_minus_beta2;
    first[i] = m;
    second[i] = v;
    parameters[i] -= f.step_size * m / (std::sqrt(v) + f.epsilon);
  }
}

LOCKSTEP_VECTOR_CLONES
void SgdLoop(float learning_rate,
             int64_t count,
             const float* __restrict gradients,
             float* __restrict parameters) {
  for (int64_t i = 0; i < count; ++i) {
    parameters[i] -= learning_rate * gradients[i];
  }
}

struct MomentumFactors {
  float learning_rate = 0;
  float momentum = 0;
  bool nesterov = false;
};

LOCKSTEP_VECTOR_CLONES
void MomentumLoop(const MomentumFactors& factors,
                  int64_t count,
                  const float* __restrict gradients,
                  float* __restrict parameters,
                  float* __restrict velocities) {
  const MomentumFactors f = factors;
  for (int64_t i = 0; i < count; ++i) {
    const float push = f.learning_rate * gradients[i];
    const float velocity = f.momentum * velocities[i] - push;
    velocities[i] = velocity;
    parameters[i] += f.nesterov ? f.momentum * velocity - push : velocity;
  }
}

void Apply(const AdamOptimizer& adam, int64_t update_number, const FlatState& state) {
  const double t = static_cast<double>(update_number);
  const double step_size =
      adam.learning_rate * std::sqrt(1 - std::pow(adam.beta2, t)) / (1 - std::pow(adam.beta1, t));
  const AdamFactors factors{.step_size = static_cast<float>(step_size),
                            .one_minus_beta1 = static_cast<float>(1 - adam.beta1),
                            .one_minus_beta2 = static_cast<float>(1 - adam.beta2),
                            .epsilon = static_cast<float>(adam.epsilon)};
  const std::size_t count = state.parameters.size();
  AdamLoop(factors,
           static_cast<int64_t>(count),
           state.gradients.data(),
           state.parameters.data(),
           state.slots.data(),
           state.slots.data() + count);
}

void Apply(const SgdOptimizer& sgd, int64_t /*update_number*/, const FlatState& state) {
  const auto learning_rate = static_cast<float>(sgd.learning_rate);
  const auto count = static_cast<int64_t>(state.parameters.size());
  if (sgd.momentum == 0) {
    SgdLoop(learning_rate, count, state.gradients.data(), state.parameters.data());
    return;
  }
  const MomentumFactors factors{.learning_rate = learning_rate,
                                .momentum = static_cast<float>(sgd.momentum),
                                .nesterov = sgd.nesterov};
  MomentumLoop(factors, count, state.gradients.data(), state.parameters.data(), state.slots.data());
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

void ApplyOptimizer(const OptimizerSpec& optimizer, int64_t update_number, const FlatState& state) {
  LOCKSTEP_CHECK(update_number >= 1, "update " + std::to_string(update_number));
  LOCKSTEP_CHECK(state.gradients.size() == state.parameters.size(),
                 std::to_string(state.gradients.size()) + " gradients");
  LOCKSTEP_CHECK(
      state.slots.size() == OptimizerSlotNames(optimizer).size() * state.parameters.size(),
      std::to_string(state.slots.size()) + " slot values");
  std::visit([&](const auto& kind) { Apply(kind, update_number, state); }, optimizer);
}

}  // namespace lockstep::runtime
