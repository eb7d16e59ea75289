#include "trainer-runtime/engine/parameter_plan.h"

#include <string>
#include <utility>
#include <variant>

#include "trainer-runtime/engine/optimizer.h"

namespace lockstep::runtime {
namespace {

void Add(const DenseLayer& layer,
         std::size_t index,
         const std::vector<int64_t>& input,
         std::vector<PlannedParameter>* plan) {
  const std::string name = "layer" + std::to_string(index);
  const Fan fan{input[0], layer.units};
  plan->push_back({{name + "/kernel", {input[0], layer.units}}, index, fan});
  plan->push_back({{name + "/bias", {layer.units}}, index, std::nullopt});
}

void Add(const Conv2DLayer& layer,
         std::size_t index,
         const std::vector<int64_t>& input,
         std::vector<PlannedParameter>* plan) {
  const std::string name = "layer" + std::to_string(index);
  const Extent& size = layer.kernel_size;
  const int64_t area = size.height * size.width;
  const Fan fan{area * input[2], area * layer.filters};
  plan->push_back(
      {{name + "/kernel", {size.height, size.width, input[2], layer.filters}}, index, fan});
  plan->push_back({{name + "/bias", {layer.filters}}, index, std::nullopt});
}

}  // namespace

Result<std::vector<LayerShape>> ShapesOf(const ModelSpec& model) {
  Result<std::vector<LayerShape>> shapes = InferShapes(model);
  if (!shapes.ok()) {
    return Error(shapes.error().code(), shapes.error().message())
        .WithField("model." + shapes.error().field());
  }
  if (shapes->empty()) {
    return Error(ErrorCode::kInvalidArgument, "a model needs at least one layer")
        .WithField("model.layers");
  }
  return shapes;
}

std::vector<PlannedParameter> PlanParameters(const ModelSpec& model,
                                             const std::vector<LayerShape>& shapes) {
  std::vector<PlannedParameter> plan;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const std::vector<int64_t>& input = i == 0 ? model.input_shape : shapes[i - 1].output;
    if (const auto* dense = std::get_if<DenseLayer>(&model.layers[i])) {
      Add(*dense, i, input, &plan);
    } else if (const auto* conv = std::get_if<Conv2DLayer>(&model.layers[i])) {
      Add(*conv, i, input, &plan);
    }
  }
  return plan;
}

std::unique_ptr<ParameterStore> MakeParameters(const TrainingSpec& spec,
                                               const std::vector<PlannedParameter>& plan,
                                               const HostAllocator& allocate) {
  std::vector<ParameterShape> shapes;
  for (const PlannedParameter& parameter : plan) {
    shapes.push_back(parameter.shape);
  }
  auto store = std::make_unique<ParameterStore>(
      std::move(shapes), OptimizerSlotNames(spec.optimizer), allocate);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].fan.has_value()) {
      FillGlorotUniform(static_cast<uint64_t>(spec.seed),
                        static_cast<int64_t>(plan[i].layer_index),
                        *plan[i].fan,
                        store->Parameter(i));
    }
  }
  return store;
}

}  // namespace lockstep::runtime
