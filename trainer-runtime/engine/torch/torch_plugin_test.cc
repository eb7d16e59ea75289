#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/testing/paths.h"
#include "common/contract/training/training_spec.h"
#include "common/json/json.h"
#include "trainer-runtime/engine/engine_checks.h"
#include "trainer-runtime/engine/plugin_engine.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// As lockstep-runtime: a static C++ library here, LibTorch with the shared one behind the plug-in.

TrainingSpec SmallNetwork() {
  TrainingSpec spec;
  spec.seed = 1;
  spec.model.input_shape = {8, 8, 1};
  spec.model.layers = {Conv2DLayer{.filters = 4,
                                   .kernel_size = {3, 3},
                                   .strides = {1, 1},
                                   .padding = Padding::kValid,
                                   .activation = Activation::kRelu},
                       MaxPooling2DLayer{},
                       FlattenLayer{},
                       DenseLayer{.units = 3}};
  spec.loss = {LossType::kSparseCategoricalCrossentropy, true};
  spec.dataset.train = {"images", "labels"};
  return spec;
}

Result<EnginePlugin> Load() {
  return EnginePlugin::Load(
      {.path = BuiltFile("bin/liblockstep-engine.so"), .executable_directory = ""});
}

TEST(TorchPlugin, TrainsBehindPlainFunctions) {
  const auto plugin = Load();
  ASSERT_TRUE(plugin.ok()) << plugin.error().ToString();
  const TrainingSpec spec = SmallNetwork();
  auto engine = plugin->MakeEngine(DumpJson(EncodeTrainingSpec(spec)));
  ASSERT_TRUE(engine.ok()) << engine.error().ToString();
  EXPECT_THAT((*engine)->Description(), HasSubstr("LibTorch"));
  EXPECT_THAT((*engine)->Description(), HasSubstr("OpenBLAS"));
  EXPECT_LT(TrainOnOneBatch(**engine, MakeSamples(spec, 3, 6), 500), 0.2);
}

TEST(TorchPlugin, BadSpecComesBackWithItsField) {
  const auto plugin = Load().value();
  Json spec = EncodeTrainingSpec(SmallNetwork());
  spec["model"]["layers"][0]["kernelSize"] = 9;
  const auto engine = plugin.MakeEngine(DumpJson(spec));
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(engine.error().ToString(), HasSubstr("kernelSize"));
}

// Half of the time to load LibTorch went into video and vision libraries that it never calls.
TEST(TorchPlugin, LibrariesThatLibTorchDoesNotUseStayOut) {
  ASSERT_TRUE(Load().ok());
  std::ifstream maps("/proc/self/maps");
  std::vector<std::string> unwanted;
  for (std::string line; std::getline(maps, line);) {
    const bool is_vision = line.find("/libopencv_") != std::string::npos ||
                           line.find("/libavcodec") != std::string::npos;
    if (is_vision && line.find("/lockstep-engine-placeholders/") == std::string::npos) {
      unwanted.push_back(line);
    }
  }
  EXPECT_THAT(unwanted, IsEmpty());
}

}  // namespace
}  // namespace lockstep::runtime
