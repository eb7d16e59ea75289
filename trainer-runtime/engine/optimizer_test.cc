#include "trainer-runtime/engine/optimizer.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "common/base/prng.h"

namespace lockstep::runtime {
namespace {

// More than one vector of any width, and a rest that fills none.
constexpr std::size_t kCount = 67;

struct Buffers {
  explicit Buffers(std::size_t slot_count) : slots(slot_count * kCount) {
    Prng prng(7);
    for (std::size_t i = 0; i < kCount; ++i) {
      parameters.push_back(static_cast<float>(prng.Unit() - 0.5));
      gradients.push_back(static_cast<float>(prng.Unit() - 0.5));
    }
  }

  FlatState Flat() { return {.parameters = parameters, .gradients = gradients, .slots = slots}; }

  std::vector<float> parameters;
  std::vector<float> gradients;
  std::vector<float> slots;
};

// Keras's documented formulas, in double.
TEST(Optimizer, AdamFollowsKerasFormula) {
  const AdamOptimizer adam;
  Buffers buffers(2);
  std::vector<double> parameters(buffers.parameters.begin(), buffers.parameters.end());
  std::vector<double> m(kCount);
  std::vector<double> v(kCount);
  for (int64_t update = 1; update <= 20; ++update) {
    ApplyOptimizer(adam, update, buffers.Flat());
    const double alpha = adam.learning_rate * std::sqrt(1 - std::pow(adam.beta2, update)) /
                         (1 - std::pow(adam.beta1, update));
    for (std::size_t i = 0; i < kCount; ++i) {
      const double gradient = buffers.gradients[i];
      m[i] = adam.beta1 * m[i] + (1 - adam.beta1) * gradient;
      v[i] = adam.beta2 * v[i] + (1 - adam.beta2) * gradient * gradient;
      parameters[i] -= alpha * m[i] / (std::sqrt(v[i]) + adam.epsilon);
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(buffers.parameters[i], parameters[i], 1e-6) << i;
    EXPECT_NEAR(buffers.slots[i], m[i], 1e-6) << i;
    EXPECT_NEAR(buffers.slots[kCount + i], v[i], 1e-6) << i;
  }
}

// Keras: parameter -= parameter x decay x rate, then Adam's step, which the decay has no part in.
TEST(Optimizer, AdamWTakesTheDecayOffBesideAdamsStep) {
  const AdamOptimizer adam{.learning_rate = 0.01};
  AdamOptimizer adam_w = adam;
  adam_w.weight_decay = 0.25;
  Buffers plain(2);
  Buffers decayed(2);
  for (int64_t update = 1; update <= 5; ++update) {
    const std::vector<float> before = decayed.parameters;
    plain.parameters = before;
    ApplyOptimizer(adam, update, plain.Flat());
    ApplyOptimizer(adam_w, update, decayed.Flat());
    EXPECT_EQ(decayed.slots, plain.slots);
    for (std::size_t i = 0; i < kCount; ++i) {
      EXPECT_NEAR(decayed.parameters[i], plain.parameters[i] - 0.0025F * before[i], 1e-7) << i;
    }
  }
  EXPECT_EQ(OptimizerSlotNames(adam_w), OptimizerSlotNames(adam));
}

// With a gradient of epsilon's size the place of epsilon shows: Keras's first step is
// learning_rate x g / (g + epsilon / sqrt(1 - beta2)), PyTorch's would be half the rate.
TEST(Optimizer, AdamAddsEpsilonAfterTheBiasCorrection) {
  const AdamOptimizer adam;
  std::vector<float> parameter{1};
  const std::vector<float> gradient{1e-7f};
  std::vector<float> slots(2);
  ApplyOptimizer(adam, 1, {.parameters = parameter, .gradients = gradient, .slots = slots});
  const double expected = 1 - 0.001 * 1e-7 / (1e-7 + 1e-7 / std::sqrt(1 - 0.999));
  EXPECT_NEAR(parameter[0], expected, 1e-7);
}

TEST(Optimizer, PlainSgdHasNoSlotsAndSubtracts) {
  const SgdOptimizer sgd{.learning_rate = 0.5};
  EXPECT_TRUE(OptimizerSlotNames(sgd).empty());
  Buffers buffers(0);
  const std::vector<float> before = buffers.parameters;
  ApplyOptimizer(sgd, 1, buffers.Flat());
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(buffers.parameters[i], before[i] - 0.5f * buffers.gradients[i]) << i;
  }
}

TEST(Optimizer, MomentumFollowsKerasFormulaWithAndWithoutNesterov) {
  for (const bool nesterov : {false, true}) {
    const SgdOptimizer sgd{.learning_rate = 0.1, .momentum = 0.9, .nesterov = nesterov};
    Buffers buffers(1);
    std::vector<double> parameters(buffers.parameters.begin(), buffers.parameters.end());
    std::vector<double> velocity(kCount);
    for (int64_t update = 1; update <= 5; ++update) {
      ApplyOptimizer(sgd, update, buffers.Flat());
      for (std::size_t i = 0; i < kCount; ++i) {
        velocity[i] = 0.9 * velocity[i] - 0.1 * buffers.gradients[i];
        parameters[i] += nesterov ? 0.9 * velocity[i] - 0.1 * buffers.gradients[i] : velocity[i];
      }
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      EXPECT_NEAR(buffers.parameters[i], parameters[i], 1e-5) << nesterov << " " << i;
    }
  }
}

// Ranks apply the same update, perhaps on different CPUs: which instruction set ran must not show.
// One element alone takes the scalar path, the same element amid others the vector path.
TEST(Optimizer, VectorAndScalarPathsGiveEqualBits) {
  Buffers whole(2);
  Buffers single(2);
  for (int64_t update = 1; update <= 3; ++update) {
    ApplyOptimizer(AdamOptimizer{}, update, whole.Flat());
    for (std::size_t i = 0; i < kCount; ++i) {
      std::vector<float> slots{single.slots[i], single.slots[kCount + i]};
      ApplyOptimizer(AdamOptimizer{},
                     update,
                     {.parameters = std::span(single.parameters).subspan(i, 1),
                      .gradients = std::span(single.gradients).subspan(i, 1),
                      .slots = slots});
      single.slots[i] = slots[0];
      single.slots[kCount + i] = slots[1];
    }
  }
  EXPECT_EQ(whole.parameters, single.parameters);
  EXPECT_EQ(whole.slots, single.slots);
}

}  // namespace
}  // namespace lockstep::runtime
