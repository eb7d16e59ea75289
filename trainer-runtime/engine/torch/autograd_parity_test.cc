// The engine of LibTorch's own layers beside the hand-written ones: what a GPU computes with, and
// what a CPU does.

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/engine/engine_checks.h"
#include "trainer-runtime/engine/torch/autograd_engine.h"
#include "trainer-runtime/engine/torch/network_cases.h"
#include "trainer-runtime/engine/torch/torch_device.h"
#include "trainer-runtime/engine/torch/torch_engine.h"

namespace lockstep::runtime {
namespace {

std::unique_ptr<Engine> MakeAutograd(const TrainingSpec& spec) {
  return MakeAutogradEngine(spec, MakeHostDevice(HostMemory::kApart)).value();
}

void ExpectSameStep(const TrainingSpec& spec, const SampleData& data, double tolerance) {
  CheckSameStep(*MakeAutograd(spec), *MakeTorchEngine(spec).value(), data, tolerance);
}

// In 16 bits a sum in another order may be rounded the other way, and a relu or a pool then take
// its other side: hence a unit of the last place (2^-8, 2^-11) or two.
TEST(AutogradParity, EveryNetworkTakesTheStepOfTheHandWrittenLayers) {
  for (const NetworkCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    TrainingSpec spec = SpecOf(c);
    const SampleData data = MakeSamples(spec, c.output_width, 10);
    ExpectSameStep(spec, data, 1e-5);
    spec.precision = Precision::kFloat16;
    ExpectSameStep(spec, data, 2e-3);
    spec.precision = Precision::kBFloat16;
    ExpectSameStep(spec, data, 1e-2);
  }
}

TEST(AutogradParity, DropoutIsThatOfTheHandWrittenLayers) {
  const NetworkCase c = DropoutCase();
  const TrainingSpec spec = SpecOf(c);
  ExpectSameStep(spec, MakeSamples(spec, c.output_width, 10), 1e-5);
}

// Updates of equal gradients are equal to the bit; these gradients are nearly so.
TEST(AutogradParity, EveryOptimizerTrainsAlike) {
  const NetworkCase c = Cases()[9];  // a convolution, pooling and two dense layers
  ASSERT_EQ(c.name, "tutorial, small");
  const std::vector<OptimizerSpec> optimizers = {SgdOptimizer{},
                                                 SgdOptimizer{0.01, 0.9, false},
                                                 SgdOptimizer{0.01, 0.9, true},
                                                 AdamOptimizer{},
                                                 AdamOptimizer{.weight_decay = 0.01}};
  for (const OptimizerSpec& optimizer : optimizers) {
    TrainingSpec spec = SpecOf(c);
    spec.optimizer = optimizer;
    const SampleData data = MakeSamples(spec, c.output_width, 10);
    const auto engine = MakeAutograd(spec);
    const auto by_hand = MakeTorchEngine(spec).value();
    const double expected = TrainOnOneBatch(*by_hand, data, 10);
    EXPECT_NEAR(TrainOnOneBatch(*engine, data, 10), expected, 1e-4 * expected);
    ExpectNear(ValuesOf(*engine), ValuesOf(*by_hand), 1e-4);
  }
}

}  // namespace
}  // namespace lockstep::runtime
