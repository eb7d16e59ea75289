#include "common/contract/training/training_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A small network that reads [28, 28, 1] and gives ten logits.
constexpr const char* kGoodSpec = R"({
  "seed": 7, "epochs": 8, "globalBatchSize": 96, "remainder": "Drop",
  "model": {"inputShape": [28, 28, 1], "layers": [
    {"type": "Conv2D", "filters": 32, "kernelSize": 3, "activation": "relu"},
    {"type": "MaxPooling2D", "poolSize": 2},
    {"type": "Flatten"},
    {"type": "Dropout", "rate": 0.5},
    {"type": "Dense", "units": 64, "activation": "relu"},
    {"type": "Dense", "units": 10}]},
  "loss": {"type": "SparseCategoricalCrossentropy", "fromLogits": true},
  "optimizer": {"type": "Adam"},
  "dataset": {"format": "idx", "images": "i.gz", "labels": "l.gz", "testSamples": 1000}
})";

// kGoodSpec after an RFC 7396 merge patch: what a bad manifest changes, and nothing else.
Json Patched(std::string_view patch) {
  Json value = ParseJson(kGoodSpec).value();
  value.merge_patch(ParseJson(patch).value());
  return value;
}

std::vector<std::string> ErrorsOf(const Json& value) {
  std::vector<Error> errors;
  DecodeTrainingSpec(value, "training", &errors);
  std::vector<std::string> texts;
  for (const Error& error : errors) {
    texts.push_back(error.ToString());
  }
  return texts;
}

TEST(TrainingSpec, ReadsEveryFieldAndFillsInKerasDefaults) {
  std::vector<Error> errors;
  const TrainingSpec spec = DecodeTrainingSpec(ParseJson(kGoodSpec).value(), "training", &errors);
  ASSERT_THAT(errors, IsEmpty());

  TrainingSpec expected;
  expected.seed = 7;
  expected.length = {LengthUnit::kEpochs, 8};
  expected.global_batch_size = 96;
  expected.remainder = RemainderRule::kDrop;
  expected.model.input_shape = {28, 28, 1};
  expected.model.layers = {
      Conv2DLayer{32, {3, 3}, {1, 1}, Padding::kValid, Activation::kRelu},
      MaxPooling2DLayer{{2, 2}, {2, 2}, Padding::kValid},
      FlattenLayer{},
      DropoutLayer{0.5},
      DenseLayer{64, Activation::kRelu},
      DenseLayer{10, Activation::kLinear},
  };
  expected.loss = {LossType::kSparseCategoricalCrossentropy, true};
  expected.optimizer = AdamOptimizer{0.001, 0.9, 0.999, 1e-7};
  expected.dataset.train = {"i.gz", "l.gz"};
  expected.dataset.test_samples = 1000;
  EXPECT_EQ(spec, expected);
}

TEST(TrainingSpec, EncodeThenDecodeGivesTheSameSpec) {
  const std::vector<std::string> patches = {
      "{}",
      R"({"epochs": null, "steps": 50, "terminateOnNaN": false, "precision": "Float16",
          "optimizer": {"type": "SGD", "momentum": 0.9, "nesterov": true}})",
      R"({"gradientClipNorm": 0.5, "optimizer": {"type": "AdamW", "weightDecay": 0.125}})",
      R"({"optimizer": {"type": "AdamW", "weightDecay": 0}})",
      R"({"optimizer": {"type": "AdamW"}})",
      R"({"dataset": {"testSamples": null, "test": {"images": "a", "labels": "b"}, "scale": 0.5,
          "shuffle": false}})",
      R"({"checkpoint": {"directory": "/c", "everySteps": 0, "keep": 1},
          "communication": {"allReduce": "Nccl", "bytesPerPack": 2048, "timeoutSeconds": 0.25}})",
      R"({"model": {"layers": [
            {"type": "Conv2D", "filters": 2, "kernelSize": [3, 5], "strides": [2, 1],
             "padding": "same", "activation": "sigmoid"},
            {"type": "MaxPooling2D", "poolSize": [3, 2], "strides": 1, "padding": "same"},
            {"type": "Flatten"}, {"type": "Dense", "units": 1}]},
          "loss": {"type": "MeanSquaredError", "fromLogits": null}})"};
  for (const std::string& patch : patches) {
    std::vector<Error> errors;
    const TrainingSpec spec = DecodeTrainingSpec(Patched(patch), "training", &errors);
    ASSERT_THAT(errors, IsEmpty()) << patch << errors.front().ToString();
    const Result<TrainingSpec> again = ParseTrainingSpec(DumpJson(EncodeTrainingSpec(spec)));
    ASSERT_TRUE(again.ok()) << again.error().ToString();
    EXPECT_EQ(*again, spec) << patch;
  }
}

// A manifest says where the variables are by its strategy, so only a runtime's section may.
TEST(TrainingSpec, PlacementOfVariablesIsToldToTheRuntimeOnly) {
  std::vector<Error> errors;
  TrainingSpec spec = DecodeTrainingSpec(Patched(R"({"replicas": 3})"), "training", &errors);
  ASSERT_THAT(errors, IsEmpty());
  EXPECT_FALSE(EncodeTrainingSection(spec).contains("variables"));
  EXPECT_FALSE(EncodeTrainingSpec(spec).contains("precision")) << "runtimes of before know it not";
  for (const VariablePlacement variables : {VariablePlacement::kMirrored,
                                            VariablePlacement::kCentral,
                                            VariablePlacement::kIndependent,
                                            VariablePlacement::kParameterServers}) {
    spec.variables = variables;
    const Result<TrainingSpec> parsed = ParseTrainingSpec(DumpJson(EncodeTrainingSpec(spec)));
    ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
    EXPECT_EQ(*parsed, spec);
  }
  DecodeTrainingSpec(EncodeTrainingSpec(spec), "training", &errors);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_THAT(errors[0].ToString(), HasSubstr("training.variables: unknown field"));
  EXPECT_EQ(ParseTrainingSpec(DumpJson(Patched(R"({"variables": "Here"})"))).error().ToString(),
            "training.variables: \"Here\" found, expected one of Mirrored, Central, Independent, "
            "ParameterServers");
}

TEST(TrainingSpec, ParseTellsAllProblemsInOneError) {
  const Result<TrainingSpec> result =
      ParseTrainingSpec(DumpJson(Patched(R"({"seed": -1, "epoch": 3, "remainder": "Pad"})")));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(
      result.error().ToString(),
      "training.seed: -1 found, expected a whole number of at least 0; training.remainder: "
      "\"Pad\" found, expected one of Keep, Drop; training.epoch: unknown field; did you mean "
      "\"epochs\"?");
}

struct BadSpec {
  const char* patch;
  std::vector<std::string> errors;
};

// Each row: what is changed in kGoodSpec, and everything that is then said.
const std::vector<BadSpec>& BadSpecs() {
  static const std::vector<BadSpec> rows = {
      {R"({"epochs": 0})",
       {"training.epochs: 0 found, expected a whole number from 1 to 1000000000"}},
      {R"({"steps": 10})",
       {"training.steps: cannot be used with the field \"epochs\"; use only one of the two"}},
      {R"({"maxStaleness": -1})",
       {"training.maxStaleness: -1 found, expected a whole number from 0 to 1000000"}},
      {R"({"globalBatchSize": 1.5})",
       {"training.globalBatchSize: 1.5 found, expected a whole number from 1 to 16777216"}},
      {R"({"remainder": "keep"})",
       {"training.remainder: \"keep\" found, expected one of Keep, Drop; did you mean \"Keep\"?"}},
      {R"({"batchSize": 3})",
       {"training.batchSize: unknown field, expected one of checkpoint, communication, dataset, "
        "devices, epochs, globalBatchSize, gradientClipNorm, loss, maxStaleness, model, optimizer, "
        "precision, "
        "remainder, replicas, seed, steps, terminateOnNaN"}},
      {R"({"precision": "float16"})",
       {"training.precision: \"float16\" found, expected one of Float32, BFloat16, Float16; did "
        "you "
        "mean \"Float16\"?"}},
      {R"({"terminateOnNaN": "no"})",
       {"training.terminateOnNaN: \"no\" found, expected true or false"}},
      {R"({"model": null, "loss": null, "optimizer": null, "dataset": null})",
       {"training.model: missing, expected an object with inputShape and layers",
        "training.loss: missing, expected an object with a type",
        "training.optimizer: missing, expected an object with a type",
        "training.dataset: missing, expected an object with format, images and labels"}},
      {R"({"model": {"inputShape": []}})",
       {"training.model.inputShape: [] found, expected a list of 1 to 4 sizes such as "
        "[28, 28, 1]: height, width, channels"}},
      {R"({"model": {"inputShape": [28, 0, 1]}})",
       {"training.model.inputShape: [28,0,1] found, expected sizes from 1 to 65536, without the "
        "batch dimension"}},
      {R"({"model": {"inputShape": 784}})",
       {"training.model.inputShape: 784 found, expected a list"}},
      {R"({"model": {"layers": []}})",
       {"training.model.layers: 0 layers found, expected 1 to 256"}},
      {R"({"model": {"layers": [{"type": "Conv2d", "filters": 3}]}})",
       {"training.model.layers[0].type: \"Conv2d\" found, expected one of Dense, Conv2D, "
        "MaxPooling2D, Flatten, Dropout; did you mean \"Conv2D\"?"}},
      {R"({"model": {"layers": [{"units": 3}]}})",
       {"training.model.layers[0].type: missing, expected one of Dense, Conv2D, MaxPooling2D, "
        "Flatten, Dropout"}},
      {R"({"model": {"layers": [{"type": "Dense"}]}})",
       {"training.model.layers[0].units: missing, expected a whole number of at least 1"}},
      {R"({"model": {"layers": [{"type": "Conv2D", "kernel_size": 3, "filters": 8}]}})",
       {"training.model.layers[0].kernelSize: missing, expected a whole number, or two: "
        "[height, width]",
        "training.model.layers[0].kernel_size: unknown field; did you mean \"kernelSize\"?"}},
      {R"({"model": {"layers": [{"type": "Conv2D", "kernelSize": [3], "filters": 8}]}})",
       {"training.model.layers[0].kernelSize: [3] found, expected a whole number from 1 to 4096, "
        "or two of them: [height, width]"}},
      {R"({"model": {"layers": [{"type": "Dropout", "rate": 1}]}})",
       {"training.model.layers[0].rate: 1 found, expected a number of at least 0 and less than "
        "1"}},
      {R"({"loss": {"type": "BinaryCrossEntropy"}})",
       {"training.loss.type: \"BinaryCrossEntropy\" found, expected one of MeanSquaredError, "
        "BinaryCrossentropy, CategoricalCrossentropy, SparseCategoricalCrossentropy; did you mean "
        "\"BinaryCrossentropy\"?"}},
      {R"({"loss": {"type": "MeanSquaredError"}})",
       {"training.loss.fromLogits: can be used only with a crossentropy loss; with "
        "MeanSquaredError, remove this field"}},
      {R"({"optimizer": {"type": "Adam", "learningRate": 0}})",
       {"training.optimizer.learningRate: 0 found, expected a number from 1e-12 to 1000"}},
      {R"({"optimizer": {"type": "Adam", "weightDecay": 0.1}})",
       {"training.optimizer.weightDecay: unknown field in Adam; the field belongs to AdamW only"}},
      {R"({"optimizer": {"type": "AdamW", "weightDecay": -0.1}, "gradientClipNorm": 0})",
       {"training.gradientClipNorm: 0 found, expected a number from 1e-12 to 1000000",
        "training.optimizer.weightDecay: -0.1 found, expected a number from 0 to 1"}},
      {R"({"optimizer": {"type": "Adam", "momentum": 0.9}})",
       {"training.optimizer.momentum: unknown field in Adam; the field belongs to SGD only"}},
      {R"({"optimizer": {"type": "SGD", "beta1": 0.9, "beta_2": 0.9}})",
       {"training.optimizer.beta1: unknown field in SGD; the field belongs to Adam and AdamW only",
        "training.optimizer.beta_2: unknown field, expected one of learningRate, momentum, "
        "nesterov, type"}},
      {R"({"model": {"layers": [{"type": "Flatten", "padding": "same"}]}})",
       {"training.model.layers[0].padding: unknown field in Flatten; the field belongs to Conv2D "
        "and MaxPooling2D only"}},
      {R"({"optimizer": {"type": "SGD", "nesterov": true}})",
       {"training.optimizer.nesterov: true found, which has no effect without momentum; set "
        "momentum too"}},
      {R"({"dataset": {"format": "tfrecord"}})",
       {"training.dataset.format: \"tfrecord\" found, expected one of idx"}},
      {R"({"dataset": {"images": "", "labels": null}})",
       {"training.dataset.labels: missing, expected the path of an IDX file",
        "training.dataset.images: \"\" found, expected a path"}},
      {R"({"dataset": {"test": {"images": "a", "labels": "b"}}})",
       {"training.dataset.testSamples: cannot be used with the field \"test\"; use only one of the "
        "two"}},
      {R"({"checkpoint": {"everySteps": -1, "keep": 0, "path": "x"}})",
       {"training.checkpoint.everySteps: -1 found, expected a whole number from 0 to 1000000000",
        "training.checkpoint.keep: 0 found, expected a whole number from 1 to 1000",
        "training.checkpoint.path: unknown field, expected one of directory, everySteps, keep"}},
      {R"({"replicas": 65})",
       {"training.replicas: 65 found, expected a whole number from 1 to 64"}},
      {R"({"replicas": 2, "devices": ["0", "GPU-a"]})",
       {"training.replicas: 2 found, but replicas cannot be used with devices, because each device "
        "is a replica; use only one of the two"}},
      {R"({"devices": ["1", "GPU-a", "1", "gpu0", "1234"]})",
       {"training.devices: \"1\" found twice, expected each GPU once",
        "training.devices[3]: \"gpu0\" found, expected a string: the index of a GPU, such as "
        "\"0\", or its UUID, such as \"GPU-...\"",
        "training.devices[4]: \"1234\" found, expected a string: the index of a GPU, such as "
        "\"0\", or its UUID, such as \"GPU-...\""}},
      {R"({"devices": ["01", "1", "GPU-"]})",  // of one GPU there is one name
       {"training.devices[0]: \"01\" found, expected a string: the index of a GPU, such as \"0\", "
        "or its UUID, such as \"GPU-...\"",
        "training.devices[2]: \"GPU-\" found, expected a string: the index of a GPU, such as "
        "\"0\", or its UUID, such as \"GPU-...\""}},
      {R"({"devices": [0, "1"]})",
       {"training.devices[0]: 0 found, expected a string: the index of a GPU, such as \"0\", or "
        "its UUID, such as \"GPU-...\""}},
      {R"({"communication": {"allReduce": "Ring"}})",
       {"training.communication.allReduce: \"Ring\" found, expected one of Auto, Cpu, Nccl"}},
      {R"({"communication": {"timeoutSeconds": 0}})",
       {"training.communication.timeoutSeconds: 0 found, expected a number from 0.1 to 86400"}},
  };
  return rows;
}

TEST(TrainingSpec, EveryBadSectionIsNamedWithFieldValueAndExpectation) {
  for (const BadSpec& row : BadSpecs()) {
    EXPECT_THAT(ErrorsOf(Patched(row.patch)), ::testing::UnorderedElementsAreArray(row.errors))
        << row.patch;
  }
}

TEST(TrainingSpec, NotAnObjectIsOneError) {
  EXPECT_THAT(ErrorsOf(Json(3)), ElementsAre("training: 3 found, expected an object"));
}

// Rules that need shapes: each row is a network and what is said about it.
TEST(TrainingSpec, NetworksThatCannotWorkAreRefusedWithTheirShapes) {
  const std::vector<BadSpec> rows = {
      {R"([{"type": "Dense", "units": 10}])",
       {"training.model.layers[0]: Dense reads a flat input, but its input is [28, 28, 1]; put "
        "{type: Flatten} before it"}},
      {R"([{"type": "Flatten"}, {"type": "Conv2D", "filters": 1, "kernelSize": 1}])",
       {"training.model.layers[1]: Conv2D reads [height, width, channels], but its input is "
        "[784]"}},
      {R"([{"type": "MaxPooling2D", "poolSize": 16},)"
       R"( {"type": "MaxPooling2D", "poolSize": [1, 2]}])",
       {"training.model.layers[1].poolSize: a window of 1 x 2 found, but the layer's input is [1, "
        "1, 1]; expected at most 1 x 1, or padding: same"}},
      {R"([{"type": "Conv2D", "filters": 4, "kernelSize": 29}])",
       {"training.model.layers[0].kernelSize: a window of 29 x 29 found, but the layer's input is "
        "[28, 28, 1]; expected at most 28 x 28, or padding: same"}},
      {R"([{"type": "Conv2D", "filters": 4, "kernelSize": 3}])",
       {"training.model.layers[0]: the network's output is [26, 26, 4], expected one dimension; "
        "add {type: Flatten} and a Dense layer"}},
      {R"([{"type": "Flatten"}, {"type": "Dense", "units": 1}])",
       {"training.model.layers[1]: the network has 1 output, expected at least 2: "
        "SparseCategoricalCrossentropy needs one output for each class"}},
      {R"([{"type": "Flatten"}, {"type": "Dense", "units": 10, "activation": "softmax"}])",
       {"training.loss.fromLogits: true found, but layers[1] already applies softmax; expected "
        "false, or activation: linear in that layer"}},
      {R"([{"type": "Flatten"}, {"type": "Dense", "units": 1048576},
           {"type": "Dense", "units": 1048576}])",
       {"training.model.layers[2]: brings the model to 1100335808512 parameters, expected at most "
        "2147483648"}},
  };
  for (const BadSpec& row : rows) {
    Json value = ParseJson(kGoodSpec).value();
    value["model"]["layers"] = ParseJson(row.patch).value();
    EXPECT_EQ(ErrorsOf(value), row.errors) << row.patch;
  }
}

TEST(TrainingSpec, ProbabilityLossOnLogitsIsRefused) {
  EXPECT_THAT(
      ErrorsOf(Patched(R"({"loss": {"fromLogits": null}})")),
      ElementsAre(
          "training.loss.fromLogits: false found, but layers[5] ends in linear, "
          "which gives no probabilities; expected true, or activation: softmax in that layer"));
}

TEST(InferShapes, FollowsKerasLayerByLayer) {
  std::vector<Error> errors;
  const TrainingSpec spec = DecodeTrainingSpec(ParseJson(kGoodSpec).value(), "training", &errors);
  const std::vector<LayerShape> shapes = InferShapes(spec.model).value();
  // The figures of Keras's own model.summary() for this network.
  EXPECT_THAT(shapes,
              ElementsAre(LayerShape{{26, 26, 32}, 320},
                          LayerShape{{13, 13, 32}, 0},
                          LayerShape{{5408}, 0},
                          LayerShape{{5408}, 0},
                          LayerShape{{64}, 346176},
                          LayerShape{{10}, 650}));
}

TEST(InferShapes, SamePaddingRoundsUpAndStridesDivide) {
  ModelSpec model;
  model.input_shape = {7, 10, 3};
  model.layers = {Conv2DLayer{4, {3, 5}, {2, 3}, Padding::kSame, Activation::kLinear},
                  MaxPooling2DLayer{{2, 2}, {3, 3}, Padding::kSame},
                  Conv2DLayer{1, {2, 1}, {1, 1}, Padding::kValid, Activation::kLinear}};
  EXPECT_THAT(InferShapes(model).value(),
              ElementsAre(LayerShape{{4, 4, 4}, 3 * 5 * 3 * 4 + 4},
                          LayerShape{{2, 2, 4}, 0},
                          LayerShape{{1, 2, 1}, 2 * 4 + 1}));
}

TEST(InferShapes, HugeInputIsRefusedWithoutOverflow) {
  ModelSpec model;
  model.input_shape = {65536, 65536, 65536, 65536};
  model.layers = {FlattenLayer{}};
  const auto shapes = InferShapes(model);
  ASSERT_FALSE(shapes.ok());
  EXPECT_EQ(shapes.error().field(), "inputShape");
}

}  // namespace
}  // namespace lockstep
