#include "trainer-runtime/engine/torch/torch_network.h"

#include <span>
#include <string>
#include <utility>
#include <variant>

#include "trainer-runtime/engine/loss.h"
#include "trainer-runtime/engine/max_pool.h"
#include "trainer-runtime/engine/parameter_plan.h"
#include "trainer-runtime/engine/window.h"

namespace lockstep::runtime {
namespace {

// A tensor over memory that somebody else owns.
at::Tensor Over(std::span<float> values, at::IntArrayRef shape) {
  return at::from_blob(values.data(), shape, at::kFloat);
}

// The layer's tensor is this one: it looks elsewhere from now on.
void Move(at::Tensor* tensor, std::span<float> values) {
  tensor->set_(Over(values, tensor->sizes()));
}

// Walks the layer list and appends the operations of each layer.
class TorchNetworkBuilder {
 public:
  TorchNetworkBuilder(const TrainingSpec& spec, std::vector<LayerShape> shapes)
      : spec_(spec), shapes_(std::move(shapes)), plan_(PlanParameters(spec.model, shapes_)) {
    network_.store = MakeParameters(spec_, plan_);
  }

  TorchNetwork Build() && {
    network_.loss = spec_.loss;
    network_.input_shape = spec_.model.input_shape;
    for (const int64_t extent : network_.input_shape) {
      network_.input_size *= extent;
    }
    for (const int64_t extent : shapes_.back().output) {
      network_.output_width *= extent;
    }
    for (index_ = 0; index_ < spec_.model.layers.size(); ++index_) {
      std::visit([this](const auto& layer) { Add(layer); }, spec_.model.layers[index_]);
    }
    return std::move(network_);
  }

 private:
  const std::vector<int64_t>& InputShape(std::size_t index) const {
    return index == 0 ? spec_.model.input_shape : shapes_[index - 1].output;
  }

  TorchParameter TakeParameter() {
    const std::size_t i = next_parameter_++;
    const std::vector<int64_t>& shape = plan_[i].shape.shape;
    network_.parameters.push_back(Over(network_.store->Parameter(i), shape));
    network_.gradients.push_back(Over(network_.store->Gradient(i), shape));
    return {network_.parameters.back(), network_.gradients.back()};
  }

  // Precondition: the layer's parameters, and no later ones, are taken.
  void Push(std::unique_ptr<TorchLayer> layer) {
    network_.layers.push_back(std::move(layer));
    network_.gradient_offsets.push_back(network_.store->Offset(first_of_layer_));
    first_of_layer_ = next_parameter_;
  }

  void AddActivation(Activation activation) {
    if (index_ + 1 == spec_.model.layers.size()) {
      if (const auto absorbed = AbsorbActivation(spec_.loss, activation)) {
        network_.loss = *absorbed;
        return;
      }
    }
    if (activation != Activation::kLinear) {
      Push(MakeActivation(activation));
    }
  }

  bool IsPoolNext() const {
    return index_ + 1 < spec_.model.layers.size() &&
           std::holds_alternative<MaxPooling2DLayer>(spec_.model.layers[index_ + 1]);
  }

  void Add(const DenseLayer& layer) {
    TorchParameter kernel = TakeParameter();
    Push(MakeDense(std::move(kernel), TakeParameter(), spec_.precision));
    AddActivation(layer.activation);
  }

  void Add(const Conv2DLayer& layer) {
    TorchParameter kernel = TakeParameter();
    const Window window =
        MakeWindow(InputShape(index_), shapes_[index_].output, layer.kernel_size, layer.strides);
    TorchParameter bias = TakeParameter();
    const bool is_relu = layer.activation == Activation::kRelu;
    if (IsPoolNext() && (is_relu || layer.activation == Activation::kLinear)) {
      ++index_;
      const auto& pooling = std::get<MaxPooling2DLayer>(spec_.model.layers[index_]);
      const MaxPool pool{.window = PoolWindow(pooling), .has_relu = is_relu};
      Push(MakeConvPool(window, std::move(kernel), std::move(bias), spec_.precision, pool));
      return;
    }
    Push(MakeConv2D(window, std::move(kernel), std::move(bias), spec_.precision));
    AddActivation(layer.activation);
  }

  void Add(const MaxPooling2DLayer& layer) {
    Push(MakeMaxPool(MaxPool{.window = PoolWindow(layer)}));
  }

  Window PoolWindow(const MaxPooling2DLayer& layer) const {
    return MakeWindow(InputShape(index_), shapes_[index_].output, layer.pool_size, layer.strides);
  }

  void Add(const FlattenLayer& /*layer*/) { Push(MakeFlatten()); }

  void Add(const DropoutLayer& layer) {
    if (layer.rate > 0) {
      Push(MakeDropout(layer.rate, index_));
    }
  }

  const TrainingSpec& spec_;
  const std::vector<LayerShape> shapes_;
  const std::vector<PlannedParameter> plan_;
  TorchNetwork network_;
  std::size_t index_ = 0;  // of the layer being added
  std::size_t next_parameter_ = 0;
  std::size_t first_of_layer_ = 0;  // the first parameter that no pushed layer has
};

}  // namespace

Status LendGradients(TorchNetwork* network, std::span<float> memory) {
  LOCKSTEP_RETURN_IF_ERROR(network->store->LendGradients(memory));
  for (std::size_t i = 0; i < network->gradients.size(); ++i) {
    Move(&network->gradients[i], network->store->Gradient(i));
  }
  return OkStatus();
}

Status LendState(TorchNetwork* network, std::span<float> parameters, std::span<float> slots) {
  LOCKSTEP_RETURN_IF_ERROR(network->store->LendState(parameters, slots));
  for (std::size_t i = 0; i < network->parameters.size(); ++i) {
    Move(&network->parameters[i], network->store->Parameter(i));
  }
  return OkStatus();
}

Result<TorchNetwork> BuildTorchNetwork(const TrainingSpec& spec) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<LayerShape> shapes, ShapesOf(spec.model));
  return TorchNetworkBuilder(spec, std::move(shapes)).Build();
}

}  // namespace lockstep::runtime
