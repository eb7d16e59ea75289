#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/contract/training/training_names.h"
#include "common/contract/training/training_spec.h"

namespace lockstep {
namespace {

// Ranges. Choices: wide enough for any honest job, narrow enough to catch a slip of the pen and to
// keep every product within int64.
constexpr int64_t kCountMax = 1'000'000'000;
constexpr int64_t kStepsMax = 1'000'000'000'000;
constexpr int64_t kGlobalBatchSizeMax = int64_t{1} << 24;
constexpr int64_t kMaxStalenessMax = 1'000'000;  // choice: as good as none
constexpr int64_t kExtentMax = 4096;             // of kernels, strides, windows
constexpr int64_t kDimensionMax = 65536;         // of inputs and filters
constexpr int64_t kUnitsMax = int64_t{1} << 20;
constexpr std::size_t kInputRankMax = 4;
constexpr std::size_t kLayersMax = 256;
constexpr double kTiny = 1e-12;
constexpr double kLearningRateMax = 1000;
constexpr double kScaleMax = 1e6;
constexpr int64_t kDeviceReplicasMax = 64;
constexpr std::size_t kDevicesMax = 64;
constexpr std::size_t kDeviceNameMax = 128;
constexpr int64_t kCheckpointsKeptMax = 1000;
constexpr int64_t kBytesPerPackMin = 1024;
constexpr int64_t kBytesPerPackMax = int64_t{1} << 30;
constexpr double kTimeoutSecondsMin = 0.1;
constexpr double kTimeoutSecondsMax = 86400;

using Errors = std::vector<Error>;

// A fraction from 0 up to, but not including, 1.
double ReadFraction(ObjectReader& reader, std::string_view key, double fallback) {
  const double value = reader.Number(key, 0, 1).value_or(fallback);
  if (value == 1) {
    reader.Fail(key, "1 found, expected a number of at least 0 and less than 1");
  }
  return value;
}

// A field that only some types of a layer or an optimizer have.
struct OwnField {
  std::string_view name;
  std::string_view owners;
};

constexpr std::array<OwnField, 8> kLayerFields = {{{"units", "Dense"},
                                                   {"activation", "Dense and Conv2D"},
                                                   {"filters", "Conv2D"},
                                                   {"kernelSize", "Conv2D"},
                                                   {"strides", "Conv2D and MaxPooling2D"},
                                                   {"padding", "Conv2D and MaxPooling2D"},
                                                   {"poolSize", "MaxPooling2D"},
                                                   {"rate", "Dropout"}}};

constexpr std::array<OwnField, 6> kOptimizerFields = {{{"momentum", "SGD"},
                                                       {"nesterov", "SGD"},
                                                       {"beta1", "Adam and AdamW"},
                                                       {"beta2", "Adam and AdamW"},
                                                       {"epsilon", "Adam and AdamW"},
                                                       {"weightDecay", "AdamW"}}};

// Ends the reading of a `type`: what only others have is answered with their names.
template <std::size_t N>
void FinishAs(std::string_view type, const std::array<OwnField, N>& fields, ObjectReader& reader) {
  std::map<std::string_view, std::string> elsewhere;
  for (const OwnField& field : fields) {
    elsewhere[field.name] = "unknown field in " + std::string(type) + "; the field belongs to " +
                            std::string(field.owners) + " only";
  }
  reader.Finish(elsewhere);
}

std::string ReadPath(ObjectReader& reader, std::string_view key, std::string fallback) {
  std::optional<std::string> path = reader.String(key);
  if (path && path->empty()) {
    reader.Fail(key, "\"\" found, expected a path");
  }
  return path.value_or(std::move(fallback));
}

std::string RequirePath(ObjectReader& reader, std::string_view key) {
  reader.Require(key, "the path of an IDX file");
  return ReadPath(reader, key, "");
}

Extent ReadExtent(ObjectReader& reader, std::string_view key, Extent fallback) {
  const Json* value = reader.Find(key);
  if (value == nullptr) {
    return fallback;
  }
  const auto fits = [](const Json& number) {
    return number.is_number_integer() && number.get<double>() >= 1 &&
           number.get<double>() <= static_cast<double>(kExtentMax);
  };
  if (fits(*value)) {
    return {value->get<int64_t>(), value->get<int64_t>()};
  }
  if (value->is_array() && value->size() == 2 && fits((*value)[0]) && fits((*value)[1])) {
    return {(*value)[0].get<int64_t>(), (*value)[1].get<int64_t>()};
  }
  const std::string found = value->is_array() ? DumpJson(*value) : DescribeJson(*value);
  reader.Fail(key,
              found + " found, expected a whole number from 1 to " + std::to_string(kExtentMax) +
                  ", or two of them: [height, width]");
  return fallback;
}

Extent RequireExtent(ObjectReader& reader, std::string_view key) {
  reader.Require(key, "a whole number, or two: [height, width]");
  return ReadExtent(reader, key, {});
}

DenseLayer ReadDense(ObjectReader& reader) {
  DenseLayer layer;
  layer.units = reader.RequireInt("units", 1, kUnitsMax);
  layer.activation = ReadEnum(reader, "activation", kActivationNames).value_or(layer.activation);
  return layer;
}

Conv2DLayer ReadConv2D(ObjectReader& reader) {
  Conv2DLayer layer;
  layer.filters = reader.RequireInt("filters", 1, kDimensionMax);
  layer.kernel_size = RequireExtent(reader, "kernelSize");
  layer.strides = ReadExtent(reader, "strides", layer.strides);
  layer.padding = ReadEnum(reader, "padding", kPaddingNames).value_or(layer.padding);
  layer.activation = ReadEnum(reader, "activation", kActivationNames).value_or(layer.activation);
  return layer;
}

MaxPooling2DLayer ReadMaxPooling2D(ObjectReader& reader) {
  MaxPooling2DLayer layer;
  layer.pool_size = ReadExtent(reader, "poolSize", layer.pool_size);
  layer.strides = ReadExtent(reader, "strides", layer.pool_size);
  layer.padding = ReadEnum(reader, "padding", kPaddingNames).value_or(layer.padding);
  return layer;
}

Layer ReadLayer(const Json& value, const std::string& path, Errors* errors) {
  ObjectReader reader(value, path, errors);
  const std::optional<LayerType> type = RequireEnum(reader, "type", kLayerTypeNames);
  if (!type) {
    return FlattenLayer{};  // which fields belong here is unknown, so the rest goes unjudged
  }
  Layer layer;
  switch (*type) {
    case LayerType::kDense:
      layer = ReadDense(reader);
      break;
    case LayerType::kConv2D:
      layer = ReadConv2D(reader);
      break;
    case LayerType::kMaxPooling2D:
      layer = ReadMaxPooling2D(reader);
      break;
    case LayerType::kFlatten:
      layer = FlattenLayer{};
      break;
    case LayerType::kDropout:
      reader.Require("rate", "a number of at least 0 and less than 1");
      layer = DropoutLayer{ReadFraction(reader, "rate", 0)};
      break;
  }
  FinishAs(NameOf(kLayerTypeNames, *type), kLayerFields, reader);
  return layer;
}

std::vector<int64_t> ReadInputShape(ObjectReader& reader) {
  const std::string expected = "a list of 1 to " + std::to_string(kInputRankMax) +
                               " sizes such as [28, 28, 1]: height, width, channels";
  std::vector<int64_t> shape;
  if (reader.Require("inputShape", expected) == nullptr) {
    return shape;
  }
  const std::vector<const Json*> sizes = reader.List("inputShape");
  const Json& value = *reader.Find("inputShape");
  if (value.is_array() && (sizes.empty() || sizes.size() > kInputRankMax)) {
    reader.Fail("inputShape", DumpJson(value) + " found, expected " + expected);
    return shape;
  }
  for (const Json* size : sizes) {
    const double number = size->is_number() ? size->get<double>() : 0;
    if (std::trunc(number) != number || number < 1 || number > static_cast<double>(kDimensionMax)) {
      reader.Fail("inputShape",
                  DumpJson(value) + " found, expected sizes from 1 to " +
                      std::to_string(kDimensionMax) + ", without the batch dimension");
      return shape;
    }
    shape.push_back(static_cast<int64_t>(number));
  }
  return shape;
}

ModelSpec ReadModel(const Json& value, const std::string& path, Errors* errors) {
  ModelSpec model;
  ObjectReader reader(value, path, errors);
  model.input_shape = ReadInputShape(reader);
  if (reader.Require("layers", "a list of layers") != nullptr) {
    const std::vector<const Json*> layers = reader.List("layers");
    if (reader.Find("layers")->is_array() && (layers.empty() || layers.size() > kLayersMax)) {
      reader.Fail("layers",
                  std::to_string(layers.size()) + " layers found, expected 1 to " +
                      std::to_string(kLayersMax));
    } else {
      for (std::size_t i = 0; i < layers.size(); ++i) {
        model.layers.push_back(ReadLayer(*layers[i], reader.PathOf("layers", i), errors));
      }
    }
  }
  reader.Finish();
  return model;
}

LossSpec ReadLoss(const Json& value, const std::string& path, Errors* errors) {
  LossSpec loss;
  ObjectReader reader(value, path, errors);
  const std::optional<LossType> type = RequireEnum(reader, "type", kLossTypeNames);
  loss.type = type.value_or(loss.type);
  loss.from_logits = reader.Bool("fromLogits").value_or(false);
  if (type == LossType::kMeanSquaredError && reader.Has("fromLogits")) {
    reader.Fail(
        "fromLogits",
        "can be used only with a crossentropy loss; with MeanSquaredError, remove this field");
  }
  reader.Finish();
  return loss;
}

SgdOptimizer ReadSgd(ObjectReader& reader) {
  SgdOptimizer sgd;
  sgd.learning_rate =
      reader.Number("learningRate", kTiny, kLearningRateMax).value_or(sgd.learning_rate);
  sgd.momentum = ReadFraction(reader, "momentum", sgd.momentum);
  sgd.nesterov = reader.Bool("nesterov").value_or(sgd.nesterov);
  if (sgd.nesterov && !reader.Has("momentum")) {
    reader.Fail("nesterov", "true found, which has no effect without momentum; set momentum too");
  }
  return sgd;
}

AdamOptimizer ReadAdam(ObjectReader& reader, bool has_decay) {
  AdamOptimizer adam;
  adam.learning_rate =
      reader.Number("learningRate", kTiny, kLearningRateMax).value_or(adam.learning_rate);
  adam.beta1 = ReadFraction(reader, "beta1", adam.beta1);
  adam.beta2 = ReadFraction(reader, "beta2", adam.beta2);
  adam.epsilon = reader.Number("epsilon", kTiny, 1).value_or(adam.epsilon);
  if (has_decay) {
    adam.weight_decay = reader.Number("weightDecay", 0, 1).value_or(kDefaultWeightDecay);
  }
  return adam;
}

OptimizerSpec ReadOptimizer(const Json& value, const std::string& path, Errors* errors) {
  ObjectReader reader(value, path, errors);
  const std::optional<OptimizerType> type = RequireEnum(reader, "type", kOptimizerTypeNames);
  if (!type) {
    return AdamOptimizer{};
  }
  OptimizerSpec optimizer;
  if (*type == OptimizerType::kSgd) {
    optimizer = ReadSgd(reader);
  } else {
    optimizer = ReadAdam(reader, *type == OptimizerType::kAdamW);
  }
  FinishAs(NameOf(kOptimizerTypeNames, *type), kOptimizerFields, reader);
  return optimizer;
}

IdxFiles ReadTestFiles(const Json& value, const std::string& path, Errors* errors) {
  ObjectReader reader(value, path, errors);
  IdxFiles files{RequirePath(reader, "images"), RequirePath(reader, "labels")};
  reader.Finish();
  return files;
}

DatasetSpec ReadDataset(const Json& value, const std::string& path, Errors* errors) {
  DatasetSpec dataset;
  ObjectReader reader(value, path, errors);
  RequireEnum(reader, "format", kDatasetFormatNames);
  dataset.train = {RequirePath(reader, "images"), RequirePath(reader, "labels")};
  dataset.scale = reader.Number("scale", kTiny, kScaleMax).value_or(dataset.scale);
  dataset.shuffle = reader.Bool("shuffle").value_or(dataset.shuffle);
  dataset.test_samples = reader.Int("testSamples", 0, kCountMax).value_or(0);
  if (const Json* test = reader.Find("test")) {
    dataset.test = ReadTestFiles(*test, reader.PathOf("test"), errors);
    if (reader.Has("testSamples")) {
      reader.Fail("testSamples", "cannot be used with the field \"test\"; use only one of the two");
    }
  }
  reader.Finish();
  return dataset;
}

CheckpointSpec ReadCheckpoint(const Json& value, const std::string& path, Errors* errors) {
  CheckpointSpec checkpoint;
  ObjectReader reader(value, path, errors);
  checkpoint.directory = ReadPath(reader, "directory", checkpoint.directory);
  checkpoint.every_steps = reader.Int("everySteps", 0, kCountMax).value_or(checkpoint.every_steps);
  checkpoint.keep = reader.Int("keep", 1, kCheckpointsKeptMax).value_or(checkpoint.keep);
  reader.Finish();
  return checkpoint;
}

CommunicationSpec ReadCommunication(const Json& value, const std::string& path, Errors* errors) {
  CommunicationSpec communication;
  ObjectReader reader(value, path, errors);
  communication.all_reduce =
      ReadEnum(reader, "allReduce", kAllReduceBackendNames).value_or(communication.all_reduce);
  communication.bytes_per_pack = reader.Int("bytesPerPack", kBytesPerPackMin, kBytesPerPackMax)
                                     .value_or(communication.bytes_per_pack);
  if (const auto seconds =
          reader.Number("timeoutSeconds", kTimeoutSecondsMin, kTimeoutSecondsMax)) {
    communication.timeout = std::chrono::milliseconds(std::llround(*seconds * 1000));
  }
  reader.Finish();
  return communication;
}

// "0", "7": where a GPU stands among those that are visible (choice: no host has 1000), or a UUID.
bool IsDevice(std::string_view name) {
  if (name.starts_with("GPU-") || name.starts_with("MIG-")) {
    return name.size() > 4 && name.size() <= kDeviceNameMax &&
           std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
  }
  return !name.empty() && name.size() <= 3 && (name == "0" || name.front() != '0') &&
         name.find_first_not_of("0123456789") == std::string_view::npos;
}

// Strings alone, as the API server takes them: 0 is none.
std::vector<std::string> ReadDevices(ObjectReader& reader) {
  const std::vector<const Json*> items = reader.List("devices");
  if (items.size() > kDevicesMax) {
    reader.Fail("devices",
                std::to_string(items.size()) + " GPUs found, expected at most " +
                    std::to_string(kDevicesMax));
    return {};
  }
  std::vector<std::string> devices;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string name = items[i]->is_string() ? items[i]->get<std::string>() : "";
    if (!IsDevice(name)) {
      reader.Fail("devices[" + std::to_string(i) + "]",
                  DescribeJson(*items[i]) +
                      " found, expected a string: the index of a GPU, such as \"0\", or its UUID, "
                      "such as " +
                      "\"GPU-...\"");
    } else if (std::find(devices.begin(), devices.end(), name) != devices.end()) {
      reader.Fail("devices", "\"" + name + "\" found twice, expected each GPU once");
    }
    devices.push_back(name);
  }
  return devices;
}

TrainingLength ReadLength(ObjectReader& reader) {
  const std::optional<int64_t> epochs = reader.Int("epochs", 1, kCountMax);
  const std::optional<int64_t> steps = reader.Int("steps", 1, kStepsMax);
  if (reader.Has("epochs") && reader.Has("steps")) {
    reader.Fail("steps", "cannot be used with the field \"epochs\"; use only one of the two");
  }
  if (reader.Has("steps")) {
    return {LengthUnit::kSteps, steps.value_or(1)};
  }
  return {LengthUnit::kEpochs, epochs.value_or(1)};
}

// The activation that makes the network's output, and where it stands; null if no layer has one.
struct OutputActivation {
  std::size_t layer_index = 0;
  const Activation* activation = nullptr;
};

OutputActivation FindOutputActivation(const ModelSpec& model) {
  for (std::size_t i = model.layers.size(); i-- > 0;) {
    if (const auto* dense = std::get_if<DenseLayer>(&model.layers[i])) {
      return {i, &dense->activation};
    }
    if (const auto* convolution = std::get_if<Conv2DLayer>(&model.layers[i])) {
      return {i, &convolution->activation};
    }
  }
  return {};
}

// Crossentropies read probabilities or logits; the wrong one trains to nonsense without a word.
void CheckOutputActivation(const TrainingSpec& spec, const std::string& path, Errors* errors) {
  const OutputActivation output = FindOutputActivation(spec.model);
  if (spec.loss.type == LossType::kMeanSquaredError || output.activation == nullptr) {
    return;
  }
  const bool gives_probabilities =
      *output.activation == Activation::kSigmoid || *output.activation == Activation::kSoftmax;
  if (spec.loss.from_logits && gives_probabilities) {
    errors->push_back(Error(ErrorCode::kInvalidArgument,
                            "true found, but layers[" + std::to_string(output.layer_index) +
                                "] already applies " +
                                std::string(ActivationName(*output.activation)) +
                                "; expected false, or activation: linear in that layer")
                          .WithField(path + ".loss.fromLogits"));
  }
  if (!spec.loss.from_logits && !gives_probabilities) {
    const bool is_binary = spec.loss.type == LossType::kBinaryCrossentropy;
    errors->push_back(Error(ErrorCode::kInvalidArgument,
                            "false found, but layers[" + std::to_string(output.layer_index) +
                                "] ends in " + std::string(ActivationName(*output.activation)) +
                                ", which gives no probabilities; expected true, or activation: " +
                                (is_binary ? "sigmoid" : "softmax") + " in that layer")
                          .WithField(path + ".loss.fromLogits"));
  }
}

// Rules between model and loss. Precondition: both were decoded without an error.
void CheckModel(const TrainingSpec& spec, const std::string& path, Errors* errors) {
  const Result<std::vector<LayerShape>> shapes = InferShapes(spec.model);
  if (!shapes.ok()) {
    errors->push_back(Error(ErrorCode::kInvalidArgument, shapes.error().message())
                          .WithField(path + ".model." + shapes.error().field()));
    return;
  }
  const std::string last = path + ".model.layers[" + std::to_string(shapes->size() - 1) + "]";
  const std::vector<int64_t>& output = shapes->back().output;
  if (output.size() != 1) {
    errors->push_back(Error(ErrorCode::kInvalidArgument,
                            "the network's output is " + FormatShape(output) +
                                ", expected one dimension; add {type: Flatten} and a Dense layer")
                          .WithField(last));
    return;
  }
  const bool needs_classes = spec.loss.type == LossType::kSparseCategoricalCrossentropy ||
                             spec.loss.type == LossType::kCategoricalCrossentropy;
  if (needs_classes && output[0] < 2) {
    errors->push_back(Error(ErrorCode::kInvalidArgument,
                            "the network has 1 output, expected at least 2: " +
                                std::string(LossTypeName(spec.loss.type)) +
                                " needs one output for each class")
                          .WithField(last));
  }
  CheckOutputActivation(spec, path, errors);
}

}  // namespace

TrainingSpec DecodeTrainingSpec(const Json& value,
                                const std::string& path,
                                std::vector<Error>* errors) {
  TrainingSpec spec;
  ObjectReader reader(value, path, errors);
  spec.seed = reader.Int("seed", 0).value_or(spec.seed);
  spec.length = ReadLength(reader);
  spec.global_batch_size =
      reader.Int("globalBatchSize", 1, kGlobalBatchSizeMax).value_or(spec.global_batch_size);
  spec.remainder = ReadEnum(reader, "remainder", kRemainderRuleNames).value_or(spec.remainder);
  spec.max_staleness = reader.Int("maxStaleness", 0, kMaxStalenessMax);
  spec.terminate_on_nan = reader.Bool("terminateOnNaN").value_or(spec.terminate_on_nan);
  spec.gradient_clip_norm = reader.Number("gradientClipNorm", kTiny, kScaleMax);
  spec.precision = ReadEnum(reader, "precision", kPrecisionNames).value_or(spec.precision);
  spec.replicas = reader.Int("replicas", 1, kDeviceReplicasMax).value_or(spec.replicas);
  spec.devices = ReadDevices(reader);
  if (spec.replicas > 1 && !spec.devices.empty()) {
    reader.Fail("replicas",
                std::to_string(spec.replicas) +
                    " found, but replicas cannot be used with devices, because each device is a "
                    "replica; use only one of the two");
  }
  const std::size_t errors_before_model = errors->size();
  if (const Json* model = reader.Require("model", "an object with inputShape and layers")) {
    spec.model = ReadModel(*model, reader.PathOf("model"), errors);
  }
  if (const Json* loss = reader.Require("loss", "an object with a type")) {
    spec.loss = ReadLoss(*loss, reader.PathOf("loss"), errors);
  }
  if (value.is_object() && errors->size() == errors_before_model) {
    CheckModel(spec, path, errors);
  }
  if (const Json* optimizer = reader.Require("optimizer", "an object with a type")) {
    spec.optimizer = ReadOptimizer(*optimizer, reader.PathOf("optimizer"), errors);
  }
  if (const Json* dataset = reader.Require("dataset", "an object with format, images and labels")) {
    spec.dataset = ReadDataset(*dataset, reader.PathOf("dataset"), errors);
  }
  if (const Json* checkpoint = reader.Find("checkpoint")) {
    spec.checkpoint = ReadCheckpoint(*checkpoint, reader.PathOf("checkpoint"), errors);
  }
  if (const Json* communication = reader.Find("communication")) {
    spec.communication = ReadCommunication(*communication, reader.PathOf("communication"), errors);
  }
  reader.Finish();
  return spec;
}

}  // namespace lockstep
