#include "trainer-runtime/engine/torch/torch_engine.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "trainer-runtime/engine/dropout.h"
#include "trainer-runtime/engine/engine_checks.h"
#include "trainer-runtime/engine/torch/network_cases.h"

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The same network written with LibTorch's recorded operations, NCHW and no trick: the oracle.
class PlainNetwork {
 public:
  PlainNetwork(Engine& engine, const TrainingSpec& spec) : spec_(spec) {
    for (const TensorView& view : engine.Tensors()) {
      if (view.kind == TensorKind::kParameter) {
        parameters_[view.name] =
            at::from_blob(view.data.data(), view.shape, at::kFloat).clone().requires_grad_();
        order_.push_back(view.name);
      }
    }
  }

  // Sum of losses. Fills the gradients of all parameters.
  double Run(const Batch& batch, double scale, uint64_t dropout_seed) {
    std::vector<int64_t> shape{batch.sample_count};
    shape.insert(shape.end(), spec_.model.input_shape.begin(), spec_.model.input_shape.end());
    values_ = at::from_blob(const_cast<float*>(batch.inputs.data()), shape, at::kFloat);
    dropout_seed_ = dropout_seed;
    for (index_ = 0; index_ < spec_.model.layers.size(); ++index_) {
      std::visit([this](const auto& layer) { Apply(layer); }, spec_.model.layers[index_]);
    }
    const at::Tensor loss = Loss(batch);
    (loss * scale).backward();
    return loss.item<double>();
  }

  // In the engine's order, flat.
  std::vector<float> Gradients() const {
    std::vector<float> all;
    for (const std::string& name : order_) {
      const at::Tensor gradient = parameters_.at(name).grad().contiguous();
      all.insert(
          all.end(), gradient.data_ptr<float>(), gradient.data_ptr<float>() + gradient.numel());
    }
    return all;
  }

 private:
  at::Tensor Parameter(const char* kind) const {
    return parameters_.at("layer" + std::to_string(index_) + "/" + kind);
  }

  void Activate(Activation activation) {
    if (activation == Activation::kRelu) {
      values_ = values_.relu();
    } else if (activation == Activation::kSigmoid) {
      values_ = values_.sigmoid();
    } else if (activation == Activation::kSoftmax) {
      values_ = values_.softmax(-1);
    }
  }

  // Pads NCHW images the way TensorFlow's "same" does.
  static at::Tensor PadSame(const at::Tensor& images, Extent size, Extent strides, double value) {
    const auto total = [](int64_t in, int64_t window, int64_t stride) {
      const int64_t rest = in % stride;
      return std::max<int64_t>(0, window - (rest == 0 ? stride : rest));
    };
    const int64_t rows = total(images.size(2), size.height, strides.height);
    const int64_t columns = total(images.size(3), size.width, strides.width);
    return at::constant_pad_nd(
        images, {columns / 2, columns - columns / 2, rows / 2, rows - rows / 2}, value);
  }

  void Apply(const DenseLayer& layer) {
    values_ = values_.matmul(Parameter("kernel")) + Parameter("bias");
    Activate(layer.activation);
  }

  void Apply(const Conv2DLayer& layer) {
    at::Tensor images = values_.permute({0, 3, 1, 2}).contiguous();
    if (layer.padding == Padding::kSame) {
      images = PadSame(images, layer.kernel_size, layer.strides, 0);
    }
    values_ = at::conv2d(images,
                         Parameter("kernel").permute({3, 2, 0, 1}).contiguous(),
                         Parameter("bias"),
                         {layer.strides.height, layer.strides.width})
                  .permute({0, 2, 3, 1});
    Activate(layer.activation);
  }

  void Apply(const MaxPooling2DLayer& layer) {
    at::Tensor images = values_.permute({0, 3, 1, 2}).contiguous();
    if (layer.padding == Padding::kSame) {
      images = PadSame(images, layer.pool_size, layer.strides, -1e30);
    }
    values_ = at::max_pool2d(images,
                             {layer.pool_size.height, layer.pool_size.width},
                             {layer.strides.height, layer.strides.width})
                  .permute({0, 2, 3, 1});
  }

  void Apply(const FlattenLayer& /*layer*/) { values_ = values_.flatten(1); }

  void Apply(const DropoutLayer& layer) {
    std::vector<float> factors(static_cast<std::size_t>(values_.numel()));
    FillDropoutFactors(Mix64(dropout_seed_) + index_, layer.rate, 0, factors);
    values_ = values_ * at::from_blob(factors.data(), values_.sizes(), at::kFloat).clone();
  }

  at::Tensor Loss(const Batch& batch) const {
    const at::Tensor output = values_.reshape({batch.sample_count, -1});
    const at::Tensor labels = at::from_blob(const_cast<float*>(batch.labels.data()),
                                            {batch.sample_count, LabelWidth(batch)},
                                            at::kFloat);
    const auto width = static_cast<double>(output.size(1));
    if (spec_.loss.type == LossType::kMeanSquaredError) {
      return (output - labels).square().sum() / width;
    }
    if (spec_.loss.type == LossType::kBinaryCrossentropy) {
      const at::Tensor sum =
          spec_.loss.from_logits
              ? at::binary_cross_entropy_with_logits(output, labels, {}, {}, at::Reduction::Sum)
              : at::binary_cross_entropy(output, labels, {}, at::Reduction::Sum);
      return sum / width;
    }
    const at::Tensor classes = labels.flatten().to(at::kLong);
    return spec_.loss.from_logits ? at::cross_entropy_loss(output, classes, {}, at::Reduction::Sum)
                                  : at::nll_loss(output.log(), classes, {}, at::Reduction::Sum);
  }

  static int64_t LabelWidth(const Batch& batch) {
    return static_cast<int64_t>(batch.labels.size()) / batch.sample_count;
  }

  const TrainingSpec& spec_;
  std::map<std::string, at::Tensor> parameters_;
  std::vector<std::string> order_;
  std::size_t index_ = 0;
  uint64_t dropout_seed_ = 0;
  at::Tensor values_;
};

void ExpectSameAsPlain(const NetworkCase& c, const TrainingSpec& spec) {
  auto engine = MakeTorchEngine(spec);
  ASSERT_TRUE(engine.ok()) << c.name << ": " << engine.error().ToString();
  const SampleData data = MakeSamples(spec, c.output_width, 10);
  const Batch batch = data.All();
  PlainNetwork plain(**engine, spec);
  const double expected = plain.Run(batch, 0.1, 42);
  const auto result =
      (*engine)->ComputeGradients(batch, {.gradient_scale = 0.1, .dropout_seed = 42});
  ASSERT_TRUE(result.ok()) << c.name << ": " << result.error().ToString();
  EXPECT_NEAR(result->loss_sum, expected, 1e-5 * std::abs(expected)) << c.name;
  const std::vector<float> expected_gradients = plain.Gradients();
  const std::span<const float> gradients = (*engine)->Gradients();
  ASSERT_EQ(gradients.size(), expected_gradients.size()) << c.name;
  float largest = 0;
  for (const float value : expected_gradients) {
    largest = std::max(largest, std::abs(value));
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    ASSERT_NEAR(gradients[i], expected_gradients[i], 1e-5 * largest) << c.name << " at " << i;
  }
}

TEST(TorchEngine, EveryLayerAndLossAgreesWithPlainLibTorch) {
  for (const NetworkCase& c : Cases()) {
    ExpectSameAsPlain(c, SpecOf(c));
  }
}

// A value next to zero may be on the other side of a relu, and a pool may take its neighbour: hence
// some units more than the last places (2^-8, 2^-11) of each product. Parts of a batch add up, as
// per-sample numbers are rounded and sums of them are not.
TEST(TorchEngine, EveryNetworkKeepsItsPromisesInLowPrecision) {
  for (const NetworkCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    TrainingSpec spec = SpecOf(c);
    const SampleData data = MakeSamples(spec, c.output_width, 10);
    CheckNearFloat32(MakeTorchEngine, spec, Precision::kBFloat16, data, 8e-2);
    CheckNearFloat32(MakeTorchEngine, spec, Precision::kFloat16, data, 1e-2);
    CheckOverflowIsTold(MakeTorchEngine, spec, data);
    for (const Precision precision : {Precision::kBFloat16, Precision::kFloat16}) {
      spec.precision = precision;
      CheckPartsAddUp(*MakeTorchEngine(spec).value(), data);
    }
  }
}

TEST(TorchEngine, DropoutAgreesWithPlainLibTorchUnderItsMask) {
  const NetworkCase c{"dropout twice",
                      {6, 6, 2},
                      {DropoutLayer{.rate = 0.25},
                       Conv(3, {3, 3}, {1, 1}, Padding::kValid),
                       FlattenLayer{},
                       DropoutLayer{.rate = 0.5},
                       DenseLayer{.units = 4}},
                      kSparseLogits,
                      4};
  ExpectSameAsPlain(c, SpecOf(c));
}

TEST(TorchEngine, PartsOfABatchAddUp) {
  for (const NetworkCase& c : Cases()) {
    const TrainingSpec spec = SpecOf(c);
    CheckPartsAddUp(*MakeTorchEngine(spec).value(), MakeSamples(spec, c.output_width, 10));
    if (HasFatalFailure()) {
      FAIL() << c.name;
    }
  }
}

TEST(TorchEngine, GradientsAreReadyLayerByLayer) {
  for (const NetworkCase& c : Cases()) {
    const TrainingSpec spec = SpecOf(c);
    const auto engine = MakeTorchEngine(spec).value();
    const auto tensors = engine->Tensors();
    const auto layer_count = std::ranges::count_if(
        tensors, [](const TensorView& tensor) { return tensor.name.ends_with("/bias"); });
    CheckTellsWhatIsReady(
        *engine, MakeSamples(spec, c.output_width, 10), static_cast<int>(layer_count));
    if (HasFailure()) {
      FAIL() << c.name;
    }
  }
}

TEST(TorchEngine, TakesLentMemory) {
  for (const NetworkCase& c : Cases()) {
    const TrainingSpec spec = SpecOf(c);
    CheckTakesLentMemory(MakeTorchEngine, spec, MakeSamples(spec, c.output_width, 10));
    CheckTakesLentState(MakeTorchEngine, spec, MakeSamples(spec, c.output_width, 10));
    if (HasFailure()) {
      FAIL() << c.name;
    }
  }
}

TEST(TorchEngine, RunsRepeatBitwise) {
  for (const NetworkCase& c : Cases()) {
    const TrainingSpec spec = SpecOf(c);
    CheckRepeatsBitwise(MakeTorchEngine, spec, MakeSamples(spec, c.output_width, 10), 3);
  }
}

TrainingSpec Tutorial() {
  TrainingSpec spec;
  spec.seed = 1;
  spec.model.input_shape = {28, 28, 1};
  spec.model.layers = {With(Activation::kRelu, Conv(32, {3, 3}, {1, 1}, Padding::kValid)),
                       MaxPooling2DLayer{},
                       FlattenLayer{},
                       DenseLayer{.units = 64, .activation = Activation::kRelu},
                       DenseLayer{.units = 10}};
  spec.loss = kSparseLogits;
  return spec;
}

TEST(TorchEngine, TensorsAreNamedAndShapedAsInKeras) {
  const auto engine = MakeTorchEngine(Tutorial()).value();
  const auto tensors = engine->Tensors();
  ASSERT_EQ(tensors.size(), 18u);  // six parameters, two slots of each
  EXPECT_EQ(tensors[0].name, "layer0/kernel");
  EXPECT_THAT(tensors[0].shape, ElementsAre(3, 3, 1, 32));
  EXPECT_EQ(tensors[2].name, "layer3/kernel");
  EXPECT_THAT(tensors[2].shape, ElementsAre(13 * 13 * 32, 64));
  EXPECT_EQ(tensors[17].name, "layer4/bias/adam_v");
  EXPECT_EQ(engine->Gradients().size(), 347'146u);
}

TEST(TorchEngine, BiasesStartAtZeroAndKernelsWithinGlorotsLimit) {
  const auto engine = MakeTorchEngine(Tutorial()).value();
  const auto tensors = engine->Tensors();
  const double limit = std::sqrt(6.0 / (9 + 9 * 32));
  for (const float weight : tensors[0].data) {
    EXPECT_LE(std::abs(weight), limit);
    EXPECT_NE(weight, 0);
  }
  for (const float weight : tensors[1].data) {
    EXPECT_EQ(weight, 0);
  }
}

TEST(TorchEngine, LearnsABatchByHeart) {
  const TrainingSpec spec = Tutorial();
  const auto engine = MakeTorchEngine(spec).value();
  EXPECT_LT(TrainOnOneBatch(*engine, MakeSamples(spec, 10, 16), 60), 0.05);
}

TEST(TorchEngine, BatchSizesMayChangeFromStepToStep) {
  const TrainingSpec spec = Tutorial();
  const auto engine = MakeTorchEngine(spec).value();
  const auto fresh = MakeTorchEngine(spec).value();
  const SampleData data = MakeSamples(spec, 10, 12);
  for (const int64_t count : {12, 5, 1}) {
    ASSERT_TRUE(engine->ComputeGradients(data.Slice(0, count), {}).ok());
  }
  ASSERT_TRUE(fresh->ComputeGradients(data.Slice(0, 1), {}).ok());
  EXPECT_TRUE(std::ranges::equal(engine->Gradients(), fresh->Gradients()));
}

TEST(TorchEngine, DropoutFollowsItsSeedAndRestsInEvaluation) {
  TrainingSpec spec = Tutorial();
  spec.model.layers.insert(spec.model.layers.begin() + 3, DropoutLayer{.rate = 0.5});
  const auto engine = MakeTorchEngine(spec).value();

  const SampleData data = MakeSamples(spec, 10, 8);
  const auto loss = [&](uint64_t seed) {
    return engine->ComputeGradients(data.All(), {.gradient_scale = 1, .dropout_seed = seed})
        .value()
        .loss_sum;
  };
  EXPECT_EQ(loss(1), loss(1));
  EXPECT_NE(loss(1), loss(2));
  spec.model.layers.erase(spec.model.layers.begin() + 3);
  // Without dropout the layers behind it have other numbers, hence other weights: compare by value.
  const auto plain = MakeTorchEngine(spec).value();
  const auto from = engine->Tensors();
  const auto to = plain->Tensors();
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::ranges::copy(from[i].data, to[i].data.begin());
  }
  EXPECT_EQ(engine->Evaluate(data.All())->loss_sum, plain->Evaluate(data.All())->loss_sum);
}

TEST(TorchEngine, InputsOfTheWrongSizeAreRefused) {
  const auto engine = MakeTorchEngine(Tutorial()).value();
  const std::vector<float> inputs(27);
  const std::vector<float> labels(1);
  const auto result = engine->Evaluate({.inputs = inputs, .labels = labels, .sample_count = 1});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(result.error().message(), HasSubstr("[28, 28, 1] needs 784 inputs, got 27"));
}

TEST(TorchEngine, ModelThatDoesNotFitTogetherIsRefusedWithTheLayer) {
  TrainingSpec spec = Tutorial();
  spec.model.layers.erase(spec.model.layers.begin() + 2);  // no Flatten before Dense
  const auto engine = MakeTorchEngine(spec);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().field(), "model.layers[2]");
  EXPECT_THAT(engine.error().message(), HasSubstr("Flatten"));
}

}  // namespace
}  // namespace lockstep::runtime
