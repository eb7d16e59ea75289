#include "trainer-runtime/engine/plugin_engine.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/testing/paths.h"
#include "common/contract/training/training_spec.h"
#include "common/json/json.h"
#include "trainer-runtime/engine/engine_abi.h"
#include "trainer-runtime/engine/engine_checks.h"
#include "trainer-runtime/engine/reference_engine.h"

namespace lockstep::runtime {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// This program has its C++ library linked statically, as lockstep-runtime has, and the plug-ins
// use the shared one: what the tests pass across is what may cross.

Result<EnginePlugin> LoadFile(const std::string& path) {
  return EnginePlugin::Load({.path = path, .executable_directory = ""});
}

Result<EnginePlugin> LoadTestPlugin(const std::string& name) {
  return LoadFile(
      BuiltFile("trainer-runtime/engine/plugins/liblockstep_test_" + name + "_plugin.so"));
}

TEST(EnginePlugin, EngineBehindItActsAsTheOneInside) {
  const auto plugin = LoadTestPlugin("reference");
  ASSERT_TRUE(plugin.ok()) << plugin.error().ToString();
  const TrainingSpec spec = SmallSpec();
  const auto outside = plugin->MakeEngine(DumpJson(EncodeTrainingSpec(spec)));
  ASSERT_TRUE(outside.ok()) << outside.error().ToString();
  const auto inside = MakeReferenceEngine(spec).value();
  EXPECT_EQ((*outside)->Description(), inside->Description());
  const SampleData data = MakeSamples(spec, 2, 6);
  EXPECT_EQ(TrainOnOneBatch(**outside, data, 4), TrainOnOneBatch(*inside, data, 4));
  EXPECT_EQ((*outside)->Evaluate(data.All())->loss_sum, inside->Evaluate(data.All())->loss_sum);
  const auto outside_tensors = (*outside)->Tensors();
  const auto inside_tensors = inside->Tensors();
  ASSERT_EQ(outside_tensors.size(), inside_tensors.size());
  for (std::size_t i = 0; i < inside_tensors.size(); ++i) {
    EXPECT_EQ(outside_tensors[i].name, inside_tensors[i].name);
    EXPECT_EQ(outside_tensors[i].kind, inside_tensors[i].kind);
    EXPECT_EQ(outside_tensors[i].shape, inside_tensors[i].shape);
    EXPECT_TRUE(std::ranges::equal(outside_tensors[i].data, inside_tensors[i].data));
  }
  EXPECT_TRUE(std::ranges::equal((*outside)->Gradients(), inside->Gradients()));
}

TEST(EnginePlugin, PrecisionAndScaleCrossAndOverflowComesBack) {
  const auto plugin = LoadTestPlugin("reference").value();
  const auto make = [&](const TrainingSpec& spec) {
    return plugin.MakeEngine(DumpJson(EncodeTrainingSpec(spec)));
  };
  const TrainingSpec spec = SmallSpec();
  const SampleData data = MakeSamples(spec, 2, 6);
  CheckNearFloat32(make, spec, Precision::kFloat16, data, 2.5e-3);
  CheckOverflowIsTold(make, spec, data);
}

TEST(EnginePlugin, WhatIsReadyIsToldAcross) {
  const auto plugin = LoadTestPlugin("reference").value();
  const TrainingSpec spec = SmallSpec();
  const auto engine = plugin.MakeEngine(DumpJson(EncodeTrainingSpec(spec))).value();
  CheckTellsWhatIsReady(*engine, MakeSamples(spec, 2, 6));
}

TEST(EnginePlugin, MemoryIsLentAcross) {
  const auto plugin = LoadTestPlugin("reference").value();
  const TrainingSpec spec = SmallSpec();
  const auto make = [&plugin](const TrainingSpec& of_engine) {
    return plugin.MakeEngine(DumpJson(EncodeTrainingSpec(of_engine)));
  };
  CheckTakesLentMemory(make, spec, MakeSamples(spec, 2, 6));
  CheckTakesLentState(make, spec, MakeSamples(spec, 2, 6));
}

// An engine whose numbers the host cannot look at, across the interface and back.
TEST(EnginePlugin, WhatIsOnADeviceIsBroughtOverInBothDirections) {
  const auto plugin = LoadTestPlugin("device").value();
  const TrainingSpec spec = SmallSpec();
  const auto make = [&plugin](const TrainingSpec& of_engine) {
    return plugin.MakeEngine(DumpJson(EncodeTrainingSpec(of_engine)));
  };
  const auto engine = make(spec).value();
  const auto on_host = MakeReferenceEngine(spec).value();
  const EngineBuffer buffer = engine->GradientBuffer();
  EXPECT_EQ(buffer.memory, MemoryKind::kCuda);
  EXPECT_EQ(buffer.byte_count, on_host->Gradients().size_bytes());
  EXPECT_NE(buffer.address, engine->Gradients().data());
  const SampleData data = MakeSamples(spec, 2, 6);
  CheckTellsWhatIsReady(*engine, data);
  std::vector<std::ptrdiff_t> marks;  // as the double numbers its events
  const std::vector<int64_t> fifth{5};
  StepOptions in_two{.ready_at = fifth};
  in_two.on_ready = [&](int64_t /*offset*/, int64_t /*count*/, void* made) {
    marks.push_back(static_cast<std::byte*>(made) - static_cast<std::byte*>(buffer.address));
  };
  ASSERT_TRUE(engine->ComputeGradients(data.All(), in_two).ok());
  EXPECT_THAT(marks, ElementsAre(0, 1)) << "from element 5, and the rest";
  EXPECT_EQ(TrainOnOneBatch(*engine, data, 4), TrainOnOneBatch(*on_host, data, 4));
  EXPECT_FALSE(std::ranges::equal(engine->Tensors()[0].data, on_host->Tensors()[0].data));
  EXPECT_EQ(ValuesOf(*engine), ValuesOf(*on_host));
  EXPECT_EQ(GradientsOf(*engine), GradientsOf(*on_host));
  const StepResult awaited = on_host->ComputeGradients(data.All(), {.gradient_scale = 0.5}).value();
  EXPECT_EQ(
      engine->ComputeGradients(data.All(), {.gradient_scale = 0.5, .is_awaited = false})->loss_sum,
      0);
  const DeviceSums sums = engine->Sums();
  EXPECT_EQ(sums.numbers.type, NumberType::kFloat64);
  EXPECT_EQ(sums.numbers.memory, MemoryKind::kCuda);
  EXPECT_EQ(sums.numbers.byte_count, kStepSumCount * sizeof(double));
  EXPECT_NE(sums.numbers.address, nullptr);
  ASSERT_TRUE(engine->Measure().ok());
  const StepResult taken = engine->TakeStep().value();
  EXPECT_EQ(taken.loss_sum, awaited.loss_sum);
  EXPECT_EQ(taken.correct_count, awaited.correct_count);
  EXPECT_GT(taken.gradient_length, 0);
  ASSERT_TRUE(engine->ScaleGradients(0.5F).ok());
  ASSERT_TRUE(engine->Measure().ok());
  EXPECT_EQ(engine->TakeStep()->gradient_length, taken.gradient_length / 2);
  std::ranges::fill(engine->Tensors()[0].data, 0.0F);
  std::ranges::fill(on_host->Tensors()[0].data, 0.0F);
  EXPECT_NE(engine->Evaluate(data.All())->loss_sum, on_host->Evaluate(data.All())->loss_sum);
  ASSERT_TRUE(engine->BringToDevice(EnginePart::kState).ok());
  EXPECT_EQ(engine->Evaluate(data.All())->loss_sum, on_host->Evaluate(data.All())->loss_sum);
  CheckGradientsAgainstDifferences(*engine, data, 2e-2);
  CheckPartsAddUp(*engine, data);
  CheckTakesLentMemory(make, spec, data);
  CheckTakesLentState(make, spec, data);
  EXPECT_EQ(engine->TakeNotice(), "this is a double of a GPU");
  EXPECT_EQ(engine->TakeNotice(), std::nullopt);
}

// The device's own update comes to the bits of the host's, call by call, and is refused where that
// would not be asked for.
TEST(EnginePlugin, GuardedUpdateCrossesWithItsNumberClipAndVerdict) {
  const auto plugin = LoadTestPlugin("device").value();
  TrainingSpec spec = SmallSpec();
  spec.optimizer = AdamOptimizer{};
  const auto engine = plugin.MakeEngine(DumpJson(EncodeTrainingSpec(spec))).value();
  const auto on_host = MakeReferenceEngine(spec).value();
  const SampleData data = MakeSamples(spec, 2, 6);
  StepOptions options{.gradient_scale = 1.0 / 6};
  for (int64_t number = 1; number <= 4; ++number) {
    const double loss = on_host->ComputeGradients(data.All(), options)->loss_sum;
    double squares = 0;
    for (const float gradient : on_host->Gradients()) {
      squares += static_cast<double>(gradient) * static_cast<double>(gradient);
    }
    const double length = std::sqrt(squares);
    const double norm_max = number == 2 ? length / 3 : length * 2;
    if (number == 2) {
      for (float& gradient : on_host->Gradients()) {
        gradient *= static_cast<float>(norm_max / length);
      }
    }
    ASSERT_TRUE(on_host->ApplyUpdate(number).ok());
    StepOptions guarded = options;
    guarded.update = GuardedUpdate{.number = number, .needs_finite = true};
    if (number > 1) {
      guarded.update->norm_max = norm_max;
    }
    const auto result = engine->ComputeGradients(data.All(), guarded);
    ASSERT_TRUE(result.ok());
    EXPECT_TRUE(result->is_updated);
    EXPECT_EQ(result->loss_sum, loss);
    EXPECT_EQ(result->gradient_length, length);
    EXPECT_EQ(ValuesOf(*engine), ValuesOf(*on_host)) << number;
  }
  const std::vector<float> before = ValuesOf(*engine);
  StepOptions too_much{.gradient_scale = std::numeric_limits<double>::infinity()};
  too_much.update = GuardedUpdate{.number = 5, .needs_finite = true};
  const auto refused = engine->ComputeGradients(data.All(), too_much);
  ASSERT_TRUE(refused.ok());
  EXPECT_FALSE(refused->is_updated);
  EXPECT_FALSE(std::isfinite(refused->gradient_length));
  EXPECT_EQ(ValuesOf(*engine), before);
}

// The double ends the program where a step is given another batch than came ahead of it.
TEST(EnginePlugin, BatchOfTheNextStepCrossesAndSoDoesThatThereIsNone) {
  const TrainingSpec spec = SmallSpec();
  const auto plugin = LoadTestPlugin("device").value();
  const auto engine = plugin.MakeEngine(DumpJson(EncodeTrainingSpec(spec))).value();
  const SampleData data = MakeSamples(spec, 2, 8);
  int asked = 0;
  StepOptions options;
  options.next = [&]() -> std::optional<Batch> { return ++asked, data.Slice(4, 8); };
  ASSERT_TRUE(engine->ComputeGradients(data.Slice(0, 4), options).ok());
  EXPECT_EQ(asked, 1);
  options.is_prefetched = true;
  options.next = [&]() -> std::optional<Batch> { return ++asked, std::nullopt; };
  ASSERT_TRUE(engine->ComputeGradients(data.Slice(4, 8), options).ok());
  EXPECT_EQ(asked, 2);
  EXPECT_DEATH(static_cast<void>(engine->ComputeGradients(data.Slice(4, 8), options)),
               "another batch than came ahead");
}

TEST(EnginePlugin, BufferOfAnEngineInTheHostsMemoryIsWhatTheHostHas) {
  const auto plugin = LoadTestPlugin("reference").value();
  const auto engine = plugin.MakeEngine(DumpJson(EncodeTrainingSpec(SmallSpec()))).value();
  const EngineBuffer buffer = engine->GradientBuffer();
  EXPECT_EQ(buffer.memory, MemoryKind::kHost);
  EXPECT_EQ(buffer.address, engine->Gradients().data());
  EXPECT_EQ(buffer.byte_count, engine->Gradients().size_bytes());
  EXPECT_EQ(engine->Measure().error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(engine->TakeStep().error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(engine->ScaleGradients(2).error().code(), ErrorCode::kUnavailable);
  const TrainingSpec spec = SmallSpec();
  EXPECT_EQ(engine->ComputeGradients(MakeSamples(spec, 2, 6).All(), {.update = GuardedUpdate{}})
                .error()
                .code(),
            ErrorCode::kUnavailable);
  EXPECT_EQ(
      engine->ComputeGradients(MakeSamples(spec, 2, 6).All(), {.is_awaited = false}).error().code(),
      ErrorCode::kUnavailable);
  EXPECT_FALSE(engine->TakeNotice().has_value());
}

TEST(EnginePlugin, BadSpecComesBackWithItsField) {
  const auto plugin = LoadTestPlugin("reference").value();
  Json spec = EncodeTrainingSpec(SmallSpec());
  spec["model"]["layers"][0]["units"] = -1;
  const auto engine = plugin.MakeEngine(DumpJson(spec));
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(engine.error().ToString(), HasSubstr("model.layers[0].units"));
}

TEST(EnginePlugin, BadBatchComesBackAsAnError) {
  const auto plugin = LoadTestPlugin("reference").value();
  const auto engine = plugin.MakeEngine(DumpJson(EncodeTrainingSpec(SmallSpec()))).value();
  const std::vector<float> inputs(4);
  const std::vector<float> labels{9};
  const auto result = engine->ComputeGradients(
      {.inputs = inputs, .labels = labels, .sample_count = 1}, StepOptions{});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(result.error().message(), HasSubstr("expected a class from 0 to 1"));
}

TEST(EnginePlugin, ExceptionInsideBecomesAnError) {
  const auto plugin = LoadTestPlugin("throwing").value();
  const auto engine = plugin.MakeEngine("{}");
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code(), ErrorCode::kInternal);
  EXPECT_THAT(engine.error().message(), HasSubstr("no such operator: aten::lockstep"));
}

TEST(EnginePlugin, AnotherVersionIsRefusedNamingBoth) {
  const auto plugin = LoadTestPlugin("old");
  ASSERT_FALSE(plugin.ok());
  EXPECT_EQ(plugin.error().code(), ErrorCode::kMismatch);
  EXPECT_THAT(plugin.error().message(),
              AllOf(HasSubstr("has version " + std::to_string(LOCKSTEP_ENGINE_ABI_VERSION + 1)),
                    HasSubstr("version " + std::to_string(LOCKSTEP_ENGINE_ABI_VERSION) + ":")));
}

TEST(EnginePlugin, MissingLibraryNamesItAndThePackages) {
  const auto plugin = LoadTestPlugin("needy");
  ASSERT_FALSE(plugin.ok());
  EXPECT_EQ(plugin.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(plugin.error().message(),
              AllOf(HasSubstr("lockstep-absent"),
                    HasSubstr("libtorch1.13"),
                    HasSubstr("libopenblas0-pthread")));
}

TEST(EnginePlugin, MissingFileNamesWhereItLookedAndThePackages) {
  const auto named = LoadFile("/nonexistent/engine.so");
  ASSERT_FALSE(named.ok());
  EXPECT_EQ(named.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(named.error().message(),
              AllOf(HasSubstr("/nonexistent/engine.so"), HasSubstr("libtorch1.13")));
  const auto searched = EnginePlugin::Load({.path = "", .executable_directory = "/nonexistent"});
  ASSERT_FALSE(searched.ok());
  EXPECT_THAT(searched.error().message(),
              AllOf(HasSubstr("/nonexistent/liblockstep-engine.so"),
                    HasSubstr("/nonexistent/../lib/lockstep/liblockstep-engine.so"),
                    HasSubstr("libopenblas0-pthread")));
}

TEST(EnginePlugin, MissingFileForGpusSaysWhatThatOneNeeds) {
  const auto searched = EnginePlugin::Load(
      {.path = "", .executable_directory = "/nonexistent", .device = EngineDevice::kCuda});
  ASSERT_FALSE(searched.ok());
  EXPECT_THAT(searched.error().message(),
              AllOf(HasSubstr("/nonexistent/liblockstep-engine-cuda.so"),
                    HasSubstr("building it needs scripts/install.sh cuda torch"),
                    HasSubstr("the wheels of PyTorch")));
}

TEST(EnginePlugin, FileThatIsNoLibraryIsRefused) {
  const std::string path = testing::TempDir() + "/lockstep-not-a-library.so";
  std::ofstream(path) << "not a library";
  const auto plugin = LoadFile(path);
  std::filesystem::remove(path);
  ASSERT_FALSE(plugin.ok());
  EXPECT_THAT(plugin.error().message(), HasSubstr(path));
}

TEST(EnginePlugin, LibraryThatIsNoPluginIsRefused) {
  const auto plugin = LoadFile(BuiltFile("trainer-runtime/engine/absent/liblockstep-absent.so"));
  ASSERT_FALSE(plugin.ok());
  EXPECT_EQ(plugin.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(plugin.error().message(), HasSubstr("is not a numeric engine"));
}

TEST(EnginePlugin, SearchesBesideTheProgramThenInLibThenTheSystem) {
  EXPECT_THAT(EnginePluginCandidates({.path = "", .executable_directory = "/opt/bin"}),
              ElementsAre("/opt/bin/liblockstep-engine.so",
                          "/opt/bin/../lib/lockstep/liblockstep-engine.so",
                          "liblockstep-engine.so"));
  EXPECT_THAT(EnginePluginCandidates({.path = "/x.so", .executable_directory = "/opt/bin"}),
              ElementsAre("/x.so"));
}

}  // namespace
}  // namespace lockstep::runtime
