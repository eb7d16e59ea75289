#include "common/contract/training/training_spec.h"

#include <utility>

#include "common/contract/text/problems.h"
#include "common/contract/training/training_names.h"

namespace lockstep {
namespace {

constexpr const char* kPath = "training";
constexpr const char* kVariablesKey = "variables";

Json EncodeExtent(const Extent& extent) {
  return Json::array({extent.height, extent.width});
}

struct LayerEncoder {
  Json operator()(const DenseLayer& layer) const {
    return {{"units", layer.units}, {"activation", ActivationName(layer.activation)}};
  }

  Json operator()(const Conv2DLayer& layer) const {
    return {{"filters", layer.filters},
            {"kernelSize", EncodeExtent(layer.kernel_size)},
            {"strides", EncodeExtent(layer.strides)},
            {"padding", PaddingName(layer.padding)},
            {"activation", ActivationName(layer.activation)}};
  }

  Json operator()(const MaxPooling2DLayer& layer) const {
    return {{"poolSize", EncodeExtent(layer.pool_size)},
            {"strides", EncodeExtent(layer.strides)},
            {"padding", PaddingName(layer.padding)}};
  }

  Json operator()(const FlattenLayer&) const { return Json::object(); }

  Json operator()(const DropoutLayer& layer) const { return {{"rate", layer.rate}}; }
};

struct OptimizerEncoder {
  Json operator()(const SgdOptimizer& optimizer) const {
    return {{"learningRate", optimizer.learning_rate},
            {"momentum", optimizer.momentum},
            {"nesterov", optimizer.nesterov}};
  }

  Json operator()(const AdamOptimizer& optimizer) const {
    Json value = {{"learningRate", optimizer.learning_rate},
                  {"beta1", optimizer.beta1},
                  {"beta2", optimizer.beta2},
                  {"epsilon", optimizer.epsilon}};
    if (optimizer.weight_decay > 0) {
      value["weightDecay"] = optimizer.weight_decay;
    }
    return value;
  }
};

// An object whose first key is its type.
Json WithType(std::string_view type, const Json& fields) {
  Json value = {{"type", type}};
  value.update(fields);
  return value;
}

Json EncodeModel(const ModelSpec& model) {
  Json layers = Json::array();
  for (const Layer& layer : model.layers) {
    layers.push_back(WithType(LayerTypeName(layer), std::visit(LayerEncoder(), layer)));
  }
  return {{"inputShape", model.input_shape}, {"layers", layers}};
}

Json EncodeLoss(const LossSpec& loss) {
  Json value = {{"type", LossTypeName(loss.type)}};
  if (loss.type != LossType::kMeanSquaredError) {
    value["fromLogits"] = loss.from_logits;
  }
  return value;
}

Json EncodeDataset(const DatasetSpec& dataset) {
  Json value = {{"format", NameOf(kDatasetFormatNames, DatasetFormat::kIdx)},
                {"images", dataset.train.images},
                {"labels", dataset.train.labels},
                {"scale", dataset.scale},
                {"shuffle", dataset.shuffle}};
  if (dataset.test) {
    value["test"] = {{"images", dataset.test->images}, {"labels", dataset.test->labels}};
  } else {
    value["testSamples"] = dataset.test_samples;
  }
  return value;
}

}  // namespace

Json EncodeTrainingSection(const TrainingSpec& spec) {
  Json value = {
      {"seed", spec.seed},
      {spec.length.unit == LengthUnit::kEpochs ? "epochs" : "steps", spec.length.count},
      {"globalBatchSize", spec.global_batch_size},
      {"remainder", NameOf(kRemainderRuleNames, spec.remainder)},
      {"terminateOnNaN", spec.terminate_on_nan},
      {"precision", NameOf(kPrecisionNames, spec.precision)},
      {"replicas", spec.replicas},
      {"devices", spec.devices},
      {"model", EncodeModel(spec.model)},
      {"loss", EncodeLoss(spec.loss)},
      {"optimizer",
       WithType(OptimizerName(spec.optimizer), std::visit(OptimizerEncoder(), spec.optimizer))},
      {"dataset", EncodeDataset(spec.dataset)},
      {"checkpoint",
       {{"directory", spec.checkpoint.directory},
        {"everySteps", spec.checkpoint.every_steps},
        {"keep", spec.checkpoint.keep}}},
      {"communication",
       {{"allReduce", NameOf(kAllReduceBackendNames, spec.communication.all_reduce)},
        {"bytesPerPack", spec.communication.bytes_per_pack},
        {"timeoutSeconds", std::chrono::duration<double>(spec.communication.timeout).count()}}}};
  if (spec.gradient_clip_norm.has_value()) {
    value["gradientClipNorm"] = *spec.gradient_clip_norm;
  }
  if (spec.max_staleness.has_value()) {
    value["maxStaleness"] = *spec.max_staleness;
  }
  return value;
}

Json EncodeTrainingSpec(const TrainingSpec& spec) {
  Json value = EncodeTrainingSection(spec);
  if (spec.precision == Precision::kFloat32) {
    value.erase("precision");  // runtimes of earlier versions, which gangs keep, do not know it
  }
  value[kVariablesKey] = NameOf(kVariablePlacementNames, spec.variables);
  return value;
}

Result<TrainingSpec> ParseTrainingSpec(std::string_view text) {
  LOCKSTEP_ASSIGN_OR_RETURN(Json value, ParseJson(text));
  std::vector<Error> errors;
  VariablePlacement variables = VariablePlacement::kMirrored;
  if (value.is_object()) {
    ObjectReader reader(value, kPath, &errors);
    variables = ReadEnum(reader, kVariablesKey, kVariablePlacementNames).value_or(variables);
    value.erase(kVariablesKey);
  }
  TrainingSpec spec = DecodeTrainingSpec(value, kPath, &errors);
  spec.variables = variables;
  if (!errors.empty()) {
    return CombineProblems(errors);
  }
  return spec;
}

std::string_view LayerTypeName(const Layer& layer) {
  struct TypeOf {
    LayerType operator()(const DenseLayer&) const { return LayerType::kDense; }

    LayerType operator()(const Conv2DLayer&) const { return LayerType::kConv2D; }

    LayerType operator()(const MaxPooling2DLayer&) const { return LayerType::kMaxPooling2D; }

    LayerType operator()(const FlattenLayer&) const { return LayerType::kFlatten; }

    LayerType operator()(const DropoutLayer&) const { return LayerType::kDropout; }
  };

  return NameOf(kLayerTypeNames, std::visit(TypeOf(), layer));
}

std::string_view ActivationName(Activation activation) {
  return NameOf(kActivationNames, activation);
}

std::string_view PaddingName(Padding padding) {
  return NameOf(kPaddingNames, padding);
}

bool ReadsClassNumbers(LossType type, int64_t label_width, int64_t output_width) {
  return label_width == 1 && (type == LossType::kSparseCategoricalCrossentropy ||
                              (type == LossType::kCategoricalCrossentropy && output_width > 1));
}

std::string_view LossTypeName(LossType type) {
  return NameOf(kLossTypeNames, type);
}

std::string_view OptimizerName(const OptimizerSpec& optimizer) {
  const auto* adam = std::get_if<AdamOptimizer>(&optimizer);
  return NameOf(kOptimizerTypeNames,
                adam == nullptr          ? OptimizerType::kSgd
                : adam->weight_decay > 0 ? OptimizerType::kAdamW
                                         : OptimizerType::kAdam);
}

}  // namespace lockstep
