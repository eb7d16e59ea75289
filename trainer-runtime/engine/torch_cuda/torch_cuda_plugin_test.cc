// The plug-in for GPUs, as lockstep-runtime loads it. On a machine without a GPU it says so; what
// it computes on one is for tests/gpu to see.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/testing/paths.h"
#include "common/contract/training/training_spec.h"
#include "common/json/json.h"
#include "trainer-runtime/engine/engine_checks.h"
#include "trainer-runtime/engine/plugin_engine.h"
#include "trainer-runtime/engine/reference_engine.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Result<std::unique_ptr<Engine>> MakeOn(const std::vector<std::string>& devices) {
  const auto plugin = EnginePlugin::Load({BuiltFile("bin/liblockstep-engine-cuda.so"),
                                          /*executable_directory=*/"",
                                          EngineDevice::kCuda});
  if (!plugin.ok()) {
    return plugin.error();
  }
  TrainingSpec spec = SmallSpec();
  spec.devices = devices;
  return plugin->MakeEngine(DumpJson(EncodeTrainingSpec(spec)));
}

TEST(TorchCudaPlugin, TrainsOnTheGpuOrSaysThatThereIsNone) {
  const auto engine = MakeOn({});
  if (!engine.ok()) {
    EXPECT_EQ(engine.error().code(), ErrorCode::kNotFound);
    EXPECT_THAT(engine.error().message(),
                StartsWith("LibTorch " LOCKSTEP_TEST_TORCH_VERSION
                           " for CUDA: no CUDA device is visible: "));
    return;
  }
  EXPECT_EQ((*engine)->GradientBuffer().memory, MemoryKind::kCuda);
  EXPECT_THAT((*engine)->Description(), HasSubstr("autograd on CUDA device 0"));
  const TrainingSpec spec = SmallSpec();
  const SampleData data = MakeSamples(spec, 2, 6);
  const auto reference = MakeReferenceEngine(spec).value();
  const double expected = TrainOnOneBatch(*reference, data, 10);
  EXPECT_NEAR(TrainOnOneBatch(**engine, data, 10), expected, 1e-4 * expected);
  CheckPartsAddUp(**engine, data);
  CheckTellsWhatIsReady(**engine, data);
}

TEST(TorchCudaPlugin, TwoDevicesOfOneEngineAreRefused) {
  const auto engine = MakeOn({"GPU-a", "GPU-b"});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().field(), "devices");
  EXPECT_THAT(engine.error().message(), HasSubstr("2 devices found, expected one"));
}

}  // namespace
}  // namespace lockstep::runtime
