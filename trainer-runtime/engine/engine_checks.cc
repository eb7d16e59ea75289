#include "trainer-runtime/engine/engine_checks.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "common/base/prng.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t kElementsProbedMax = 24;  // of each tensor; a whole kernel takes too long

constexpr float kOverwritten = -7;  // what no gradient of the tests is

float LargestMagnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

double Length(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) {
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  return std::sqrt(squares);
}

std::vector<float> Copy(std::span<const float> values) {
  return {values.begin(), values.end()};
}

bool IsInHostMemory(Engine& engine) {
  return engine.GradientBuffer().address == engine.Gradients().data();
}

// Where each parameter begins and where its second half does, descending.
std::vector<int64_t> PointsOf(Engine& engine) {
  std::vector<int64_t> points;
  int64_t begin = 0;
  for (const TensorView& tensor : engine.Tensors()) {
    const auto size = static_cast<int64_t>(tensor.data.size());
    if (tensor.kind == TensorKind::kParameter && size > 0) {
      points.push_back(begin);
      if (size > 1) {
        points.push_back(begin + size / 2);
      }
      begin += size;
    }
  }
  std::ranges::reverse(points);
  return points;
}

std::string LayerOf(const TensorView& tensor) {
  return tensor.name.substr(0, tensor.name.find('/'));
}

// Whether parameters are of more than one layer, which backward makes one after the other.
bool HasLayers(Engine& engine) {
  const std::vector<TensorView> tensors = engine.Tensors();
  return std::ranges::any_of(tensors, [&](const TensorView& tensor) {
    return tensor.kind == TensorKind::kParameter && LayerOf(tensor) != LayerOf(tensors.front());
  });
}

// Parameters first, then the slots.
Status Lend(std::span<float> memory, std::size_t parameter_count, Engine& engine) {
  return engine.LendState(memory.first(parameter_count), memory.subspan(parameter_count));
}

}  // namespace

std::vector<float> GradientsOf(Engine& engine) {
  EXPECT_TRUE(engine.BringToHost(EnginePart::kGradients).ok());
  return Copy(engine.Gradients());
}

std::vector<float> ValuesOf(Engine& engine) {
  EXPECT_TRUE(engine.BringToHost(EnginePart::kState).ok());
  std::vector<float> values;
  for (const TensorView& tensor : engine.Tensors()) {
    values.insert(values.end(), tensor.data.begin(), tensor.data.end());
  }
  return values;
}

Batch SampleData::Slice(int64_t begin, int64_t end) const {
  const auto cut = [&](const std::vector<float>& values) {
    const std::size_t width = values.size() / static_cast<std::size_t>(sample_count);
    return std::span<const float>(values).subspan(static_cast<std::size_t>(begin) * width,
                                                  static_cast<std::size_t>(end - begin) * width);
  };
  return {.inputs = cut(inputs), .labels = cut(labels), .sample_count = end - begin};
}

TrainingSpec SmallSpec() {
  TrainingSpec spec;
  spec.seed = 3;
  spec.model.input_shape = {4};
  spec.model.layers = {DenseLayer{.units = 3, .activation = Activation::kSigmoid},
                       DenseLayer{.units = 2, .activation = Activation::kLinear}};
  spec.loss = {LossType::kSparseCategoricalCrossentropy, true};
  spec.dataset.train = {"images", "labels"};
  return spec;
}

SampleData MakeSamples(const TrainingSpec& spec, int64_t output_width, int64_t sample_count) {
  Prng prng(99);
  SampleData data;
  data.sample_count = sample_count;
  int64_t input_width = 1;
  for (const int64_t extent : spec.model.input_shape) {
    input_width *= extent;
  }
  for (int64_t i = 0; i < sample_count * input_width; ++i) {
    data.inputs.push_back(static_cast<float>(2 * prng.Unit() - 1));
  }
  const bool has_classes = spec.loss.type == LossType::kSparseCategoricalCrossentropy ||
                           spec.loss.type == LossType::kCategoricalCrossentropy;
  const int64_t label_width = has_classes ? 1 : output_width;
  for (int64_t i = 0; i < sample_count * label_width; ++i) {
    if (has_classes) {
      data.labels.push_back(static_cast<float>(prng.Below(static_cast<uint64_t>(output_width))));
    } else if (spec.loss.type == LossType::kBinaryCrossentropy) {
      data.labels.push_back(static_cast<float>(prng.Below(2)));
    } else {
      data.labels.push_back(static_cast<float>(prng.Unit()));
    }
  }
  return data;
}

void CheckGradientsAgainstDifferences(Engine& engine, const SampleData& data, double tolerance) {
  const Batch batch = data.All();
  const StepOptions options{.gradient_scale = 1};
  ASSERT_TRUE(engine.ComputeGradients(batch, options).ok());
  const std::vector<float> gradients = GradientsOf(engine);
  ASSERT_TRUE(engine.BringToHost(EnginePart::kState).ok());
  std::size_t offset = 0;
  for (const TensorView& tensor : engine.Tensors()) {
    if (tensor.kind != TensorKind::kParameter) {
      continue;
    }
    const auto expected = std::span<const float>(gradients).subspan(offset, tensor.data.size());
    offset += tensor.data.size();
    const double scale = std::max<double>(LargestMagnitude(expected), 1e-3);
    const std::size_t stride = std::max<std::size_t>(1, tensor.data.size() / kElementsProbedMax);
    for (std::size_t i = 0; i < tensor.data.size(); i += stride) {
      const float at = tensor.data[i];
      const float step = 5e-3f;
      const auto loss_at = [&](float value) {
        tensor.data[i] = value;
        EXPECT_TRUE(engine.BringToDevice(EnginePart::kState).ok());
        return engine.Evaluate(batch).value().loss_sum;
      };
      const double above = loss_at(at + step);
      const double below = loss_at(at - step);
      loss_at(at);
      const double difference = (above - below) / (2 * static_cast<double>(step));
      EXPECT_NEAR(expected[i], difference, tolerance * scale) << tensor.name << "[" << i << "]";
    }
  }
  EXPECT_EQ(offset, gradients.size());
}

void CheckPartsAddUp(Engine& engine, const SampleData& data) {
  StepOptions options{.gradient_scale = 0.25};
  const auto whole = engine.ComputeGradients(data.All(), options);
  ASSERT_TRUE(whole.ok());
  const std::vector<float> expected = GradientsOf(engine);
  std::vector<double> sum(expected.size());
  StepResult total;
  const int64_t cuts[] = {0, 1, 1, data.sample_count / 2, data.sample_count};
  for (std::size_t part = 0; part + 1 < std::size(cuts); ++part) {
    options.first_sample = cuts[part];
    const auto result = engine.ComputeGradients(data.Slice(cuts[part], cuts[part + 1]), options);
    ASSERT_TRUE(result.ok()) << result.error().ToString();
    total.loss_sum += result->loss_sum;
    total.correct_count += result->correct_count;
    const std::vector<float> gradients = GradientsOf(engine);
    std::transform(sum.begin(), sum.end(), gradients.begin(), sum.begin(), std::plus<>());
  }
  const double scale = std::max<double>(LargestMagnitude(expected), 1e-3);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(sum[i], expected[i], 1e-5 * scale) << "gradient " << i;
  }
  EXPECT_NEAR(total.loss_sum, whole->loss_sum, 1e-5 * std::abs(whole->loss_sum));
  EXPECT_EQ(total.correct_count, whole->correct_count);
}

void CheckTellsWhatIsReady(Engine& engine, const SampleData& data) {
  const bool is_seen = engine.GradientBuffer().memory == MemoryKind::kHost;
  const std::vector<int64_t> points = PointsOf(engine);
  for (const Batch& batch : {data.All(), data.Slice(0, 0)}) {
    StepOptions options{.gradient_scale = 0.25, .ready_at = points};
    ASSERT_TRUE(engine.ComputeGradients(batch, options).ok());
    const std::vector<float> expected = GradientsOf(engine);
    // What a host may do with them while backward goes on: read them, and write over them.
    std::vector<float> told(expected.size());
    const std::span<float> gradients = engine.Gradients();
    std::size_t ready_from = gradients.size();
    std::ranges::fill(gradients, kOverwritten);
    bool is_told_in_time = false;
    std::vector<int64_t> found;
    options.on_ready = [&](int64_t offset, int64_t count, void* /*made*/) {
      found.push_back(offset);
      is_told_in_time = is_told_in_time || gradients.front() == kOverwritten;
      EXPECT_GT(count, 0);
      ASSERT_EQ(static_cast<std::size_t>(offset + count), ready_from);
      ready_from = static_cast<std::size_t>(offset);
      const auto ready = gradients.subspan(ready_from, static_cast<std::size_t>(count));
      std::copy(ready.begin(), ready.end(), told.begin() + offset);
      std::fill(ready.begin(), ready.end(), kOverwritten);
    };
    ASSERT_TRUE(engine.ComputeGradients(batch, options).ok());
    EXPECT_EQ(ready_from, 0U);
    EXPECT_EQ(found, points);
    if (is_seen) {
      EXPECT_TRUE(is_told_in_time || batch.sample_count == 0 || !HasLayers(engine));
      EXPECT_EQ(told, expected);
      EXPECT_EQ(Copy(gradients), std::vector<float>(gradients.size(), kOverwritten));
    }
  }
}

void CheckTakesLentMemory(const EngineFactory& make,
                          const TrainingSpec& spec,
                          const SampleData& data) {
  std::vector<float> memory;  // outlives the engine
  auto lent = make(spec);
  auto own = make(spec);
  ASSERT_TRUE(lent.ok() && own.ok());
  const std::size_t count = (*own)->Gradients().size();
  memory.assign(count + 1, kOverwritten);
  const Status refused = (*lent)->LendGradients(memory);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE((*lent)->Gradients().data(), memory.data());
  for (std::size_t round = 0; round < 3; ++round) {
    const std::vector<float> before = memory;
    std::vector<float> next(count, kOverwritten);
    ASSERT_TRUE((*lent)->LendGradients(next).ok());
    EXPECT_EQ((*lent)->Gradients().data(), next.data());
    EXPECT_EQ((*lent)->Gradients().size(), count);
    EXPECT_EQ(TrainOnOneBatch(**lent, data, 2), TrainOnOneBatch(**own, data, 2));
    EXPECT_TRUE((*lent)->BringToHost(EnginePart::kGradients).ok());
    EXPECT_EQ(next, GradientsOf(**own));
    EXPECT_EQ(memory, before) << "written after it was given back";
    memory = std::move(next);  // the same memory under another name
  }
  EXPECT_EQ(ValuesOf(**lent), ValuesOf(**own));
}

void CheckTakesLentState(const EngineFactory& make,
                         const TrainingSpec& spec,
                         const SampleData& data) {
  std::vector<float> memory;  // outlives the engine
  auto lent = make(spec);
  auto own = make(spec);
  ASSERT_TRUE(lent.ok() && own.ok());
  const std::size_t parameter_count = (*own)->Gradients().size();
  const std::size_t count = ValuesOf(**own).size();
  if (!IsInHostMemory(**lent)) {
    memory.resize(count);
    const Status refused = Lend(memory, parameter_count, **lent);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), ErrorCode::kUnavailable);
    return;
  }
  memory.assign(count + 1, kOverwritten);
  const Status refused = Lend(memory, parameter_count, **lent);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  for (std::size_t round = 0; round < 3; ++round) {
    const std::vector<float> before = memory;
    std::vector<float> next(count, kOverwritten);
    ASSERT_TRUE(Lend(next, parameter_count, **lent).ok());
    EXPECT_EQ(next, ValuesOf(**own)) << "left behind";
    EXPECT_EQ(TrainOnOneBatch(**lent, data, 2), TrainOnOneBatch(**own, data, 2));
    EXPECT_EQ((*lent)->Evaluate(data.All())->loss_sum, (*own)->Evaluate(data.All())->loss_sum);
    EXPECT_EQ(next, ValuesOf(**own));
    EXPECT_EQ(ValuesOf(**lent), ValuesOf(**own));
    EXPECT_EQ(memory, before) << "written after it was given back";
    std::ranges::fill(memory, kOverwritten);
    memory = std::move(next);  // the same memory under another name
  }
}

void CheckNearFloat32(const EngineFactory& make,
                      TrainingSpec spec,
                      Precision precision,
                      const SampleData& data,
                      double tolerance) {
  const auto exact = make(spec).value();
  spec.precision = precision;
  const auto rounded = make(spec).value();
  const bool is_scaled = precision == Precision::kFloat16;
  StepOptions options{.gradient_scale = 1 / static_cast<double>(data.sample_count)};
  const StepResult expected = exact->ComputeGradients(data.All(), options).value();
  options.loss_scale = is_scaled ? 1024 : 1;
  const StepResult result = rounded->ComputeGradients(data.All(), options).value();
  EXPECT_EQ(result.overflow_count, 0);
  EXPECT_NEAR(result.loss_sum, expected.loss_sum, tolerance * std::abs(expected.loss_sum));
  double difference = 0;
  double length = 0;
  const std::vector<float> exact_gradients = GradientsOf(*exact);
  const std::vector<float> rounded_gradients = GradientsOf(*rounded);
  for (std::size_t i = 0; i < exact_gradients.size(); ++i) {
    const double value = exact_gradients[i];
    difference += std::pow(rounded_gradients[i] - value, 2);
    length += value * value;
  }
  EXPECT_GT(difference, 0) << "computed in Float32";
  EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(length));
}

void CheckOverflowIsTold(const EngineFactory& make, TrainingSpec spec, const SampleData& data) {
  for (const Precision precision :
       {Precision::kFloat32, Precision::kBFloat16, Precision::kFloat16}) {
    spec.precision = precision;
    const auto engine = make(spec).value();
    StepOptions options{.gradient_scale = 1};
    EXPECT_EQ(engine->ComputeGradients(data.All(), options)->overflow_count, 0);
    options.loss_scale = 1 << 24U;  // no gradient of an output of these tests is below 2^-8
    const StepResult result = engine->ComputeGradients(data.All(), options).value();
    EXPECT_EQ(result.overflow_count, precision == Precision::kFloat16 ? 1 : 0);
    const std::vector<float> gradients = GradientsOf(*engine);
    const bool is_finite =
        std::ranges::all_of(gradients, [](float value) { return std::isfinite(value); });
    EXPECT_EQ(is_finite, result.overflow_count == 0);
  }
}

void ExpectNear(const std::vector<float>& found,
                const std::vector<float>& expected,
                double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  std::vector<float> differences(found.size());
  std::transform(found.begin(), found.end(), expected.begin(), differences.begin(), std::minus<>());
  EXPECT_LE(Length(differences), tolerance * std::max(Length(expected), 1e-3));
}

void CheckSameStep(Engine& found, Engine& expected, const SampleData& data, double tolerance) {
  ASSERT_EQ(ValuesOf(found), ValuesOf(expected)) << "at the start";
  const StepOptions options{
      .gradient_scale = 0.1, .dropout_seed = 42, .first_sample = 30, .loss_scale = 8};
  const StepResult wanted = expected.ComputeGradients(data.All(), options).value();
  const StepResult result = found.ComputeGradients(data.All(), options).value();
  EXPECT_NEAR(result.loss_sum, wanted.loss_sum, tolerance * std::abs(wanted.loss_sum));
  EXPECT_EQ(result.correct_count, wanted.correct_count);
  ExpectNear(GradientsOf(found), GradientsOf(expected), tolerance);
  const StepResult tested = expected.Evaluate(data.All()).value();
  EXPECT_NEAR(
      found.Evaluate(data.All())->loss_sum, tested.loss_sum, tolerance * std::abs(tested.loss_sum));
}

void CheckRepeatsBitwise(const EngineFactory& make,
                         const TrainingSpec& spec,
                         const SampleData& data,
                         int64_t steps) {
  auto first = make(spec);
  auto second = make(spec);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(ValuesOf(**first), ValuesOf(**second)) << "at the start";
  const double first_loss = TrainOnOneBatch(**first, data, steps);
  const double second_loss = TrainOnOneBatch(**second, data, steps);
  EXPECT_EQ(first_loss, second_loss);
  EXPECT_EQ(ValuesOf(**first), ValuesOf(**second)) << "after " << steps << " steps";
}

std::vector<std::string> NoticesOf(Engine& engine) {
  std::vector<std::string> notices;
  while (auto notice = engine.TakeNotice()) {
    notices.push_back(*notice);
  }
  return notices;
}

double TrainOnOneBatch(Engine& engine, const SampleData& data, int64_t steps) {
  const double scale = 1 / static_cast<double>(data.sample_count);
  double loss = 0;
  for (int64_t step = 1; step <= steps; ++step) {
    const StepOptions options{
        .gradient_scale = scale, .dropout_seed = static_cast<uint64_t>(step), .first_sample = 0};
    const auto result = engine.ComputeGradients(data.All(), options);
    EXPECT_TRUE(result.ok());
    EXPECT_TRUE(engine.ApplyUpdate(step).ok());
    loss = result.ok() ? result->loss_sum * scale : 0;
  }
  return loss;
}

}  // namespace lockstep::runtime
