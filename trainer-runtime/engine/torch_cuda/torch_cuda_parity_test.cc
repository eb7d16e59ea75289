// Needs a GPU: what the engine computes there beside the same source on the CPU. Runs in a process
// of its own, as LibTorch looks for its CUDA half once.

#include <gtest/gtest.h>

#include "trainer-runtime/engine/engine_checks.h"
#include "trainer-runtime/engine/torch/autograd_engine.h"
#include "trainer-runtime/engine/torch/network_cases.h"
#include "trainer-runtime/engine/torch/torch_calls.h"
#include "trainer-runtime/engine/torch/torch_device.h"
#include "trainer-runtime/engine/torch_cuda/torch_cuda_device.h"

namespace lockstep::runtime {
namespace {

// Kernels of a GPU add in another order; in 16 bits a unit of the last place or two comes to it.
constexpr double kToleranceOf32 = 1e-4;
constexpr double kToleranceOfFloat16 = 5e-3;
constexpr double kToleranceOfBFloat16 = 3e-2;

double ToleranceOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      break;
    case Precision::kFloat16:
      return kToleranceOfFloat16;
    case Precision::kBFloat16:
      return kToleranceOfBFloat16;
  }
  return kToleranceOf32;
}

Result<std::unique_ptr<Engine>> MakeOnGpu(const TrainingSpec& spec) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<TorchDevice> device,
                            MakeCudaDevice("", spec.precision));
  return MakeAutogradEngine(spec, std::move(device));
}

Result<std::unique_ptr<Engine>> MakeOnCpu(const TrainingSpec& spec) {
  return MakeAutogradEngine(spec, MakeHostDevice(HostMemory::kShared));
}

TEST(TorchCudaParity, EveryNetworkTakesTheStepOfTheCpuAndTrainsAlike) {
  if (const auto device = MakeCudaDevice("", Precision::kFloat32); !device.ok()) {
    GTEST_SKIP() << device.error().message();
  }
  for (const Precision precision :
       {Precision::kFloat32, Precision::kFloat16, Precision::kBFloat16}) {
    for (const NetworkCase& c : Cases()) {
      SCOPED_TRACE(c.name);
      TrainingSpec spec = SpecOf(c);
      spec.precision = precision;
      const SampleData data = MakeSamples(spec, c.output_width, 10);
      const double tolerance = ToleranceOf(precision);
      CheckSameStep(*MakeOnGpu(spec).value(), *MakeOnCpu(spec).value(), data, tolerance);
      CheckTellsWhatIsReady(*MakeOnGpu(spec).value(), data);
      const auto on_gpu = MakeOnGpu(spec).value();
      const auto on_cpu = MakeOnCpu(spec).value();
      const double expected = TrainOnOneBatch(*on_cpu, data, 5);
      EXPECT_NEAR(TrainOnOneBatch(*on_gpu, data, 5), expected, 10 * tolerance * expected);
    }
  }
}

// The device takes the updates, and from the fourth step on does what it took down.
TEST(TorchCudaParity, GuardedStepsAreOneGraphAndTrainAsTheCpuDoes) {
  if (const auto device = MakeCudaDevice("", Precision::kFloat32); !device.ok()) {
    GTEST_SKIP() << device.error().message();
  }
  for (const Precision precision : {Precision::kFloat32, Precision::kFloat16}) {
    for (const NetworkCase& c : Cases()) {
      SCOPED_TRACE(c.name);
      TrainingSpec spec = SpecOf(c);
      spec.precision = precision;
      const SampleData data = MakeSamples(spec, c.output_width, 10);
      const double tolerance = 10 * ToleranceOf(precision);
      const auto on_gpu = MakeOnGpu(spec).value();
      const auto on_cpu = MakeAutogradEngine(spec, MakeHostDevice(HostMemory::kApart)).value();
      for (int64_t number = 1; number <= 8; ++number) {
        StepOptions options{.gradient_scale = 0.1, .loss_scale = 1024};
        options.dropout_seed = static_cast<uint64_t>(number);
        options.update = GuardedUpdate{.number = number, .norm_max = 1.0, .needs_finite = true};
        const auto found = on_gpu->ComputeGradients(data.All(), options);
        ASSERT_TRUE(found.ok()) << found.error().message();
        const StepResult expected = on_cpu->ComputeGradients(data.All(), options).value();
        EXPECT_TRUE(found->is_updated);
        EXPECT_NEAR(found->loss_sum, expected.loss_sum, tolerance * expected.loss_sum) << number;
      }
      ExpectNear(ValuesOf(*on_gpu), ValuesOf(*on_cpu), tolerance);
      EXPECT_EQ(on_gpu->TakeNotice(), "steps with 10 samples run as one CUDA graph");
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
