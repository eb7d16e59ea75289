#include "trainer-runtime/engine/torch/torch_layers.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/base/prng.h"
#include "trainer-runtime/engine/dropout.h"
#include "trainer-runtime/engine/low_precision.h"

namespace lockstep::runtime {
namespace {

std::span<const float> View(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

std::span<float> MutableView(at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

std::span<int32_t> Taps(const at::Tensor& taps) {
  return {taps.data_ptr<int32_t>(), static_cast<std::size_t>(taps.numel())};
}

// Makes `buffer` [shape], keeping its memory when that suffices: a fresh allocation of some
// megabytes a step costs as much in page faults as the layer's arithmetic.
void Reuse(at::Tensor& buffer, at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  if (!buffer.defined()) {
    buffer = at::empty(shape, type);
  }
  buffer.resize_(shape);
}

// What goes into a product, in the network's precision (low_precision.h). Others may still need it
// as it is, so it is a copy.
class Operand {
 public:
  explicit Operand(Precision precision) : precision_(precision) {}

  // Valid until the next call.
  at::Tensor Of(const at::Tensor& values) {
    if (precision_ == Precision::kFloat32) {
      return values;
    }
    Reuse(copy_, values.sizes());
    copy_.copy_(values);
    RoundTo(precision_, MutableView(copy_));
    return copy_;
  }

 private:
  Precision precision_;
  at::Tensor copy_;
};

class DenseOp final : public TorchLayer {
 public:
  DenseOp(TorchParameter kernel, TorchParameter bias, Precision precision)
      : kernel_(std::move(kernel)),
        bias_(std::move(bias)),
        precision_(precision),
        rounded_kernel_(precision),
        rounded_bias_(precision),
        rounded_input_(precision),
        rounded_gradient_(precision) {}

  at::Tensor Forward(const at::Tensor& input, const ForwardOptions& /*options*/) override {
    input_ = rounded_input_.Of(input);
    factors_ = rounded_kernel_.Of(kernel_.value);
    Reuse(output_, {input.size(0), bias_.value.size(0)});
    at::addmm_out(output_, rounded_bias_.Of(bias_.value), input_, factors_);
    RoundTo(precision_, MutableView(output_));
    return output_;
  }

  at::Tensor Backward(const at::Tensor& output_gradient, bool wants_input_gradient) override {
    const at::Tensor gradient = rounded_gradient_.Of(output_gradient);
    at::mm_out(kernel_.gradient, input_.t(), gradient);
    at::sum_out(bias_.gradient, gradient, 0);
    if (!wants_input_gradient) {
      return {};
    }
    Reuse(input_gradient_, input_.sizes());
    at::mm_out(input_gradient_, gradient, factors_.t());
    RoundTo(precision_, MutableView(input_gradient_));
    return input_gradient_;
  }

  bool has_parameters() const override { return true; }

 private:
  TorchParameter kernel_;  // [in, out]
  TorchParameter bias_;    // [out]
  Precision precision_;
  Operand rounded_kernel_;
  Operand rounded_bias_;
  Operand rounded_input_;
  Operand rounded_gradient_;
  at::Tensor factors_;  // the kernel, as it was multiplied
  at::Tensor input_;
  at::Tensor output_;
  at::Tensor input_gradient_;
};

// Convolution through oneDNN. The kernel lies in memory as Keras has it, [height, width, in, out];
// LibTorch is shown it, and the images, in its own order of axes but with these strides, which
// is what oneDNN is fastest with.
class Convolution {
 public:
  Convolution(Window window, TorchParameter kernel, TorchParameter bias, Precision precision)
      : window_(window),
        kernel_(std::move(kernel)),
        bias_(std::move(bias)),
        precision_(precision),
        rounded_kernel_(precision),
        rounded_bias_(precision) {}

  Precision precision() const { return precision_; }

  // Takes the newest weights, for all calls until the next one.
  void Begin() {
    factors_ = rounded_kernel_.Of(kernel_.value);
    addends_ = rounded_bias_.Of(bias_.value);
  }

  // Not rounded. Shapes: images [n, in_height, in_width, in], result [n, out_height, out_width,
  // out].
  at::Tensor Apply(const at::Tensor& images) const {
    const at::Tensor output = at::convolution(ChannelsSecond(Pad(images)),
                                              factors_.permute({3, 2, 0, 1}),
                                              addends_,
                                              {window_.strides.height, window_.strides.width},
                                              {0, 0},
                                              {1, 1},
                                              false,
                                              {0, 0},
                                              1);
    return output.permute({0, 2, 3, 1}).contiguous();  // nothing to copy in the usual case
  }

  // Sets the gradients of kernel and bias to zero.
  void ClearGradients() {
    kernel_.gradient.zero_();
    bias_.gradient.zero_();
  }

  // Adds to the kernel's gradient and returns that of the images, where wanted. The bias is left to
  // the caller: oneDNN would take as long for its sum as for the kernel.
  at::Tensor AddGradients(const at::Tensor& images,
                          const at::Tensor& output_gradient,
                          bool wants_input_gradient) {
    auto [image_gradient, kernel_gradient, bias_gradient] =
        at::convolution_backward(ChannelsSecond(output_gradient),
                                 ChannelsSecond(Pad(images)),
                                 factors_.permute({3, 2, 0, 1}),
                                 at::nullopt,
                                 {window_.strides.height, window_.strides.width},
                                 {0, 0},
                                 {1, 1},
                                 false,
                                 {0, 0},
                                 1,
                                 {wants_input_gradient, true, false});
    kernel_.gradient.add_(kernel_gradient.permute({2, 3, 1, 0}));
    if (!wants_input_gradient) {
      return {};
    }
    return image_gradient.permute({0, 2, 3, 1})
        .narrow(1, window_.pad_before.height, window_.in_height)
        .narrow(2, window_.pad_before.width, window_.in_width)
        .contiguous();
  }

  at::Tensor& bias_gradient() { return bias_.gradient; }

 private:
  static at::Tensor ChannelsSecond(const at::Tensor& images) {
    return images.permute({0, 3, 1, 2});
  }

  at::Tensor Pad(const at::Tensor& images) const {
    const Extent& before = window_.pad_before;
    const Extent& after = window_.pad_after;
    if (after.height == 0 && after.width == 0) {
      return images;
    }
    // Pairs (before, after) from the last axis to the first.
    return at::constant_pad_nd(images,
                               {0, 0, before.width, after.width, before.height, after.height});
  }

  Window window_;
  TorchParameter kernel_;  // [height, width, in, out]
  TorchParameter bias_;    // [out]
  Precision precision_;
  Operand rounded_kernel_;
  Operand rounded_bias_;
  at::Tensor factors_;  // the kernel, as it is multiplied
  at::Tensor addends_;  // the bias
};

class Conv2DOp final : public TorchLayer {
 public:
  explicit Conv2DOp(Convolution convolution)
      : convolution_(std::move(convolution)),
        rounded_input_(convolution_.precision()),
        rounded_gradient_(convolution_.precision()) {}

  at::Tensor Forward(const at::Tensor& input, const ForwardOptions& /*options*/) override {
    convolution_.Begin();
    input_ = rounded_input_.Of(input);
    at::Tensor output = convolution_.Apply(input_);
    RoundTo(convolution_.precision(), MutableView(output));
    return output;
  }

  at::Tensor Backward(const at::Tensor& output_gradient, bool wants_input_gradient) override {
    const at::Tensor gradient = rounded_gradient_.Of(output_gradient);
    convolution_.ClearGradients();
    at::sum_out(convolution_.bias_gradient(), gradient, {0, 1, 2});
    at::Tensor input_gradient = convolution_.AddGradients(input_, gradient, wants_input_gradient);
    if (wants_input_gradient) {
      RoundTo(convolution_.precision(), MutableView(input_gradient));
    }
    return input_gradient;
  }

  bool has_parameters() const override { return true; }

 private:
  Convolution convolution_;
  Operand rounded_input_;
  Operand rounded_gradient_;
  at::Tensor input_;
};

// LibTorch's own pooling over NCHW takes a third of a small network's step
// (docs/decisions/0004-engine-on-libtorch.md).
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
    MaxPoolForward(pool_, View(input), MutableView(output_), Taps(taps_));
    return output_;
  }

  at::Tensor Backward(const at::Tensor& output_gradient, bool wants_input_gradient) override {
    if (!wants_input_gradient) {
      return {};
    }
    Reuse(input_gradient_, input_shape_);
    MaxPoolBackward(pool_, View(output_gradient), Taps(taps_), MutableView(input_gradient_));
    return input_gradient_;
  }

 private:
  MaxPool pool_;
  std::vector<int64_t> input_shape_;
  at::Tensor output_;
  at::Tensor taps_;
  at::Tensor input_gradient_;
};

// Convolution, then pooling, a few samples at a time: what lies between them, the largest values of
// the network by far, never leaves the cache.
class ConvPoolOp final : public TorchLayer {
 public:
  ConvPoolOp(Convolution convolution, MaxPool pool)
      : convolution_(std::move(convolution)),
        pool_(pool),
        rounded_input_(convolution_.precision()),
        rounded_gradient_(convolution_.precision()) {
    const Window& window = pool_.window;
    const int64_t sample_bytes =
        window.in_height * window.in_width * window.channels * static_cast<int64_t>(sizeof(float));
    chunk_size_ = std::max<int64_t>(1, kChunkBytes / sample_bytes);
  }

  at::Tensor Forward(const at::Tensor& input, const ForwardOptions& /*options*/) override {
    convolution_.Begin();
    input_ = rounded_input_.Of(input);
    const Window& window = pool_.window;
    const std::vector<int64_t> shape{
        input.size(0), window.out_height, window.out_width, window.channels};
    Reuse(output_, shape);
    Reuse(taps_, shape, at::kInt);
    ForEachChunk([&](int64_t begin, int64_t count) {
      at::Tensor between = convolution_.Apply(input_.narrow(0, begin, count));
      RoundTo(convolution_.precision(), MutableView(between));
      at::Tensor output = output_.narrow(0, begin, count);
      MaxPoolForward(
          pool_, View(between), MutableView(output), Taps(taps_.narrow(0, begin, count)));
    });
    return output_;
  }

  at::Tensor Backward(const at::Tensor& output_gradient, bool wants_input_gradient) override {
    const at::Tensor gradient = rounded_gradient_.Of(output_gradient);
    convolution_.ClearGradients();
    AddMaxPoolChannelSums(
        pool_, View(gradient), Taps(taps_), MutableView(convolution_.bias_gradient()));
    if (wants_input_gradient) {
      Reuse(input_gradient_, input_.sizes());
    }
    const Window& window = pool_.window;
    ForEachChunk([&](int64_t begin, int64_t count) {
      Reuse(between_gradient_, {count, window.in_height, window.in_width, window.channels});
      MaxPoolBackward(pool_,
                      View(gradient.narrow(0, begin, count)),
                      Taps(taps_.narrow(0, begin, count)),
                      MutableView(between_gradient_));
      const at::Tensor image_gradient = convolution_.AddGradients(
          input_.narrow(0, begin, count), between_gradient_, wants_input_gradient);
      if (wants_input_gradient) {
        input_gradient_.narrow(0, begin, count).copy_(image_gradient);
      }
    });
    if (!wants_input_gradient) {
      return {};
    }
    RoundTo(convolution_.precision(), MutableView(input_gradient_));
    return input_gradient_;
  }

  bool has_parameters() const override { return true; }

 private:
  // Half of the 1 MiB second-level cache that one core of a server has at least.
  static constexpr int64_t kChunkBytes = 512 * 1024;

  // Calls visit(first sample, sample count) for each chunk, in order.
  template <typename Visit>
  void ForEachChunk(const Visit& visit) const {
    const int64_t sample_count = input_.size(0);
    for (int64_t begin = 0; begin < sample_count; begin += chunk_size_) {
      visit(begin, std::min(chunk_size_, sample_count - begin));
    }
  }

  Convolution convolution_;
  MaxPool pool_;
  Operand rounded_input_;
  Operand rounded_gradient_;
  int64_t chunk_size_ = 1;  // samples
  at::Tensor input_;
  at::Tensor output_;
  at::Tensor taps_;
  at::Tensor between_gradient_;
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
    const int64_t elements_per_sample = input.size(0) == 0 ? 0 : input.numel() / input.size(0);
    // Each layer draws from a stream of its own.
    FillDropoutFactors(Mix64(options.dropout_seed) + layer_index_,
                       rate_,
                       static_cast<uint64_t>(options.first_sample * elements_per_sample),
                       MutableView(factors_));
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

}  // namespace

std::unique_ptr<TorchLayer> MakeDense(TorchParameter kernel,
                                      TorchParameter bias,
                                      Precision precision) {
  return std::make_unique<DenseOp>(std::move(kernel), std::move(bias), precision);
}

std::unique_ptr<TorchLayer> MakeConv2D(const Window& window,
                                       TorchParameter kernel,
                                       TorchParameter bias,
                                       Precision precision) {
  return std::make_unique<Conv2DOp>(
      Convolution(window, std::move(kernel), std::move(bias), precision));
}

std::unique_ptr<TorchLayer> MakeConvPool(const Window& window,
                                         TorchParameter kernel,
                                         TorchParameter bias,
                                         Precision precision,
                                         const MaxPool& pool) {
  return std::make_unique<ConvPoolOp>(
      Convolution(window, std::move(kernel), std::move(bias), precision), pool);
}

std::unique_ptr<TorchLayer> MakeMaxPool(const MaxPool& pool) {
  return std::make_unique<MaxPoolOp>(pool);
}

std::unique_ptr<TorchLayer> MakeFlatten() {
  return std::make_unique<FlattenOp>();
}

std::unique_ptr<TorchLayer> MakeDropout(double rate, std::size_t layer_index) {
  return std::make_unique<DropoutOp>(rate, layer_index);
}

std::unique_ptr<TorchLayer> MakeActivation(Activation activation) {
  return std::make_unique<ActivationOp>(activation);
}

}  // namespace lockstep::runtime
