#include "trainer-runtime/engine/torch/torch_layers.h"

#include <span>
#include <string>
#include <utility>
#include <variant>

#include "common/base/prng.h"
#include "trainer-runtime/engine/dropout.h"
#include "trainer-runtime/engine/initializer.h"
#include "trainer-runtime/engine/loss.h"
#include "trainer-runtime/engine/max_pool.h"
#include "trainer-runtime/engine/window.h"

namespace lockstep::runtime {
namespace {

std::span<const float> View(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

std::span<float> MutableView(at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

// A tensor over memory that somebody else owns.
at::Tensor Over(std::span<float> values, at::IntArrayRef shape) {
  return at::from_blob(values.data(), shape, at::kFloat);
}

// Makes `buffer` [shape], keeping its memory when that suffices: a fresh allocation of some
// megabytes a step costs as much in page faults as the layer's arithmetic.
void Reuse(at::Tensor& buffer, at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  if (!buffer.defined()) {
    buffer = at::empty(shape, type);
  }
  buffer.resize_(shape);
}

// One parameter and where its gradient goes, both in the flat buffers.
struct Parameter {
  at::Tensor value;
  at::Tensor gradient;
};

class DenseOp final : public TorchLayer {
 public:
  DenseOp(Parameter kernel, Parameter bias) : kernel_(std::move(kernel)), bias_(std::move(bias)) {}

  at::Tensor Forward(const at::Tensor& input, const ForwardOptions& /*options*/) override {
    input_ = input;
    Reuse(output_, {input.size(0), bias_.value.size(0)});
    at::addmm_out(output_, bias_.value, input, kernel_.value);
    return output_;
  }

  at::Tensor Backward(const at::Tensor& output_gradient, bool wants_input_gradient) override {
    at::mm_out(kernel_.gradient, input_.t(), output_gradient);
    at::sum_out(bias_.gradient, output_gradient, 0);
    if (!wants_input_gradient) {
      return {};
    }
    Reuse(input_gradient_, input_.sizes());
    at::mm_out(input_gradient_, output_gradient, kernel_.value.t());
    return input_gradient_;
  }

  bool has_parameters() const override { return true; }

 private:
  Parameter kernel_;  // [in, out]
  Parameter bias_;    // [out]
  at::Tensor input_;
  at::Tensor output_;
  at::Tensor input_gradient_;
};

// Convolution through oneDNN. The kernel lies in memory as Keras has it, [height, width, in, out];
// LibTorch is shown it, and the images, in its own order of axes but with these strides, which
// is what oneDNN is fastest with.
class Conv2DOp final : public TorchLayer {
 public:
  Conv2DOp(Window window, Parameter kernel, Parameter bias)
      : window_(window), kernel_(std::move(kernel)), bias_(std::move(bias)) {}

  at::Tensor Forward(const at::Tensor& input, const ForwardOptions& /*options*/) override {
    padded_ = IsPadded() ? at::constant_pad_nd(input, PadWidths()) : input;
    const at::Tensor output = at::convolution(ChannelsSecond(padded_),
                                              kernel_.value.permute({3, 2, 0, 1}),
                                              bias_.value,
                                              {window_.strides.height, window_.strides.width},
                                              {0, 0},
                                              {1, 1},
                                              false,
                                              {0, 0},
                                              1);
    return output.permute({0, 2, 3, 1}).contiguous();  // nothing to copy in the usual case
  }

  at::Tensor Backward(const at::Tensor& output_gradient, bool wants_input_gradient) override {
    auto [input_gradient, kernel_gradient, bias_gradient] =
        at::convolution_backward(ChannelsSecond(output_gradient),
                                 ChannelsSecond(padded_),
                                 kernel_.value.permute({3, 2, 0, 1}),
                                 at::nullopt,
                                 {window_.strides.height, window_.strides.width},
                                 {0, 0},
                                 {1, 1},
                                 false,
                                 {0, 0},
                                 1,
                                 {wants_input_gradient, true, false});
    kernel_.gradient.copy_(kernel_gradient.permute({2, 3, 1, 0}));
    // oneDNN would add up the bias while it works on the kernel, at twice the cost of this.
    at::sum_out(bias_.gradient, output_gradient, {0, 1, 2});
    if (!wants_input_gradient) {
      return {};
    }
    at::Tensor gradient = input_gradient.permute({0, 2, 3, 1});
    if (IsPadded()) {
      gradient = gradient.narrow(1, window_.pad_before.height, window_.in_height)
                     .narrow(2, window_.pad_before.width, window_.in_width);
    }
    return gradient.contiguous();
  }

  bool has_parameters() const override { return true; }

 private:
  static at::Tensor ChannelsSecond(const at::Tensor& images) {
    return images.permute({0, 3, 1, 2});
  }

  bool IsPadded() const { return window_.pad_after.height > 0 || window_.pad_after.width > 0; }

  // Pairs (before, after) from the last axis to the first.
  std::vector<int64_t> PadWidths() const {
    return {0,
            0,
            window_.pad_before.width,
            window_.pad_after.width,
            window_.pad_before.height,
            window_.pad_after.height};
  }

  Window window_;
  Parameter kernel_;  // [height, width, in, out]
  Parameter bias_;    // [out]
  at::Tensor padded_;
};

// LibTorch's own pooling over NCHW takes a third of a small network's step
// (docs/decisions/0007-engine-on-libtorch.md).
class MaxPoolOp final : public TorchLayer {
 public:
  explicit MaxPoolOp(MaxPool pool) : pool_(pool) {}

  at::Tensor Forward(const at::Tensor& input, const ForwardOptions& /*options*/) override {
    input_shape_ = input.sizes().vec();
    const Window& window = pool_.window;
    const std::vector<int64_t> shape{
        input.size(0), window.out_height, window.out_width, window.channels};
    Reuse(output_, shape);
    Reuse(taps_, shape, at::kInt);
    MaxPoolForward(pool_, View(input), MutableView(output_), Taps());
    return output_;
  }

  at::Tensor Backward(const at::Tensor& output_gradient, bool wants_input_gradient) override {
    if (!wants_input_gradient) {
      return {};
    }
    Reuse(input_gradient_, input_shape_);
    MaxPoolBackward(pool_, View(output_gradient), Taps(), MutableView(input_gradient_));
    return input_gradient_;
  }

 private:
  std::span<int32_t> Taps() {
    return {taps_.data_ptr<int32_t>(), static_cast<std::size_t>(taps_.numel())};
  }

  MaxPool pool_;
  std::vector<int64_t> input_shape_;
  at::Tensor output_;
  at::Tensor taps_;
  at::Tensor input_gradient_;
};

class FlattenOp final : public TorchLayer {
 public:
  at::Tensor Forward(const at::Tensor& input, const ForwardOptions& /*options*/) override {
    input_shape_ = input.sizes().vec();
    return input.flatten(1);
  }

  at::Tensor Backward(const at::Tensor& output_gradient, bool wants_input_gradient) override {
    return wants_input_gradient ? output_gradient.view(input_shape_) : at::Tensor();
  }

 private:
  std::vector<int64_t> input_shape_;
};

class DropoutOp final : public TorchLayer {
 public:
  DropoutOp(double rate, std::size_t layer_index) : rate_(rate), layer_index_(layer_index) {}

  at::Tensor Forward(const at::Tensor& input, const ForwardOptions& options) override {
    if (!options.is_training) {
      return input;
    }
    Reuse(factors_, input.sizes());
    // Each layer draws from a stream of its own.
    FillDropoutFactors(Mix64(options.dropout_seed) + layer_index_, rate_, MutableView(factors_));
    return input * factors_;
  }

  at::Tensor Backward(const at::Tensor& output_gradient, bool wants_input_gradient) override {
    return wants_input_gradient ? output_gradient * factors_ : at::Tensor();
  }

 private:
  double rate_;
  std::size_t layer_index_;
  at::Tensor factors_;
};

// Works in place: what comes in belongs to the layer before, which needs only its own input later.
class ActivationOp final : public TorchLayer {
 public:
  explicit ActivationOp(Activation activation) : activation_(activation) {}

  at::Tensor Forward(const at::Tensor& input, const ForwardOptions& /*options*/) override {
    output_ = input;
    switch (activation_) {
      case Activation::kRelu:
        output_.clamp_min_(0);
        break;
      case Activation::kSigmoid:
        output_.sigmoid_();
        break;
      case Activation::kSoftmax:
        output_ = at::softmax(input, -1);  // over channels, as in Keras
        break;
      case Activation::kLinear:
        break;
    }
    return output_;
  }

  at::Tensor Backward(const at::Tensor& output_gradient, bool wants_input_gradient) override {
    if (!wants_input_gradient) {
      return {};
    }
    switch (activation_) {
      case Activation::kRelu:
        return at::threshold_backward(output_gradient, output_, 0);
      case Activation::kSigmoid:
        return at::sigmoid_backward(output_gradient, output_);
      case Activation::kSoftmax:
        return output_ * (output_gradient - (output_gradient * output_).sum(-1, true));
      case Activation::kLinear:
        break;
    }
    return output_gradient;
  }

 private:
  Activation activation_;
  at::Tensor output_;
};

// Walks the layer list and appends the operations of each layer.
class Builder {
 public:
  Builder(const TrainingSpec& spec, std::vector<LayerShape> shapes)
      : spec_(spec), shapes_(std::move(shapes)) {
    PlanParameters();
    network_.store =
        std::make_unique<ParameterStore>(parameter_shapes_, OptimizerSlotNames(spec_.optimizer));
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

  void PlanParameters() {
    for (std::size_t i = 0; i < spec_.model.layers.size(); ++i) {
      const std::string name = "layer" + std::to_string(i);
      if (const auto* dense = std::get_if<DenseLayer>(&spec_.model.layers[i])) {
        parameter_shapes_.push_back({name + "/kernel", {InputShape(i)[0], dense->units}});
        parameter_shapes_.push_back({name + "/bias", {dense->units}});
      } else if (const auto* conv = std::get_if<Conv2DLayer>(&spec_.model.layers[i])) {
        const Extent& size = conv->kernel_size;
        parameter_shapes_.push_back(
            {name + "/kernel", {size.height, size.width, InputShape(i)[2], conv->filters}});
        parameter_shapes_.push_back({name + "/bias", {conv->filters}});
      }
    }
  }

  Parameter TakeParameter() {
    const std::size_t i = next_parameter_++;
    const auto& shape = parameter_shapes_[i].shape;
    return {Over(network_.store->Parameter(i), shape), Over(network_.store->Gradient(i), shape)};
  }

  // The next parameter, as a kernel of the layer being added.
  Parameter TakeKernel(Fan fan) {
    FillGlorotUniform(static_cast<uint64_t>(spec_.seed),
                      static_cast<int64_t>(index_),
                      fan,
                      network_.store->Parameter(next_parameter_));
    return TakeParameter();
  }

  void Push(std::unique_ptr<TorchLayer> layer) { network_.layers.push_back(std::move(layer)); }

  void AddActivation(Activation activation) {
    if (index_ + 1 == spec_.model.layers.size()) {
      if (const auto absorbed = AbsorbActivation(spec_.loss, activation)) {
        network_.loss = *absorbed;
        return;
      }
    }
    const bool is_left_to_pool = activation == Activation::kRelu && IsPoolNext();
    if (activation != Activation::kLinear && !is_left_to_pool) {
      Push(std::make_unique<ActivationOp>(activation));
    }
    pool_has_relu_ = is_left_to_pool;
  }

  bool IsPoolNext() const {
    return index_ + 1 < spec_.model.layers.size() &&
           std::holds_alternative<MaxPooling2DLayer>(spec_.model.layers[index_ + 1]);
  }

  void Add(const DenseLayer& layer) {
    Parameter kernel = TakeKernel({InputShape(index_)[0], layer.units});
    Push(std::make_unique<DenseOp>(std::move(kernel), TakeParameter()));
    AddActivation(layer.activation);
  }

  void Add(const Conv2DLayer& layer) {
    const auto& input = InputShape(index_);
    const int64_t area = layer.kernel_size.height * layer.kernel_size.width;
    Parameter kernel = TakeKernel({area * input[2], area * layer.filters});
    const Window window =
        MakeWindow(input, shapes_[index_].output, layer.kernel_size, layer.strides);
    Push(std::make_unique<Conv2DOp>(window, std::move(kernel), TakeParameter()));
    AddActivation(layer.activation);
  }

  void Add(const MaxPooling2DLayer& layer) {
    const Window window =
        MakeWindow(InputShape(index_), shapes_[index_].output, layer.pool_size, layer.strides);
    Push(std::make_unique<MaxPoolOp>(
        MaxPool{.window = window, .has_relu = std::exchange(pool_has_relu_, false)}));
  }

  void Add(const FlattenLayer& /*layer*/) { Push(std::make_unique<FlattenOp>()); }

  void Add(const DropoutLayer& layer) {
    if (layer.rate > 0) {
      Push(std::make_unique<DropoutOp>(layer.rate, index_));
    }
  }

  const TrainingSpec& spec_;
  const std::vector<LayerShape> shapes_;
  std::vector<ParameterShape> parameter_shapes_;
  TorchNetwork network_;
  std::size_t index_ = 0;  // of the layer being added
  std::size_t next_parameter_ = 0;
  bool pool_has_relu_ = false;  // the layer before left its relu to the pooling
};

}  // namespace

Result<TorchNetwork> BuildTorchNetwork(const TrainingSpec& spec) {
  auto shapes = InferShapes(spec.model);
  if (!shapes.ok()) {
    return Error(shapes.error().code(), shapes.error().message())
        .WithField("model." + shapes.error().field());
  }
  if (shapes->empty()) {
    return Error(ErrorCode::kInvalidArgument, "a model needs at least one layer")
        .WithField("model.layers");
  }
  return Builder(spec, std::move(shapes).value()).Build();
}

}  // namespace lockstep::runtime
