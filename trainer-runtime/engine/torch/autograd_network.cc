#include "trainer-runtime/engine/torch/autograd_network.h"

#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "common/base/prng.h"
#include "trainer-runtime/engine/loss.h"
#include "trainer-runtime/engine/parameter_store.h"
#include "trainer-runtime/engine/window.h"

namespace lockstep::runtime {
namespace {

// Values in the network's precision, and on the way back their gradients: what goes into a product
// and what comes out of it (low_precision.h). As there the rounded numbers stay in float32: tensor
// cores take both kinds of 16 bits whole in TF32, and sum in float32.
at::Tensor Rounded(const at::Tensor& values, Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      break;
    case Precision::kBFloat16:
      return values.to(at::kBFloat16).to(at::kFloat);
    case Precision::kFloat16:
      return values.to(at::kHalf).to(at::kFloat);
  }
  return values;
}

// The same of a weight, whose gradient is not rounded. The difference of a number and what it is
// rounded to is exact, so the sum is what it is rounded to.
at::Tensor RoundedWeight(const at::Tensor& weight, Precision precision) {
  if (precision == Precision::kFloat32) {
    return weight;
  }
  const at::Tensor plain = weight.detach();
  return weight + (Rounded(plain, precision) - plain);
}

at::Tensor ChannelsSecond(const at::Tensor& images) {
  return images.permute({0, 3, 1, 2});
}

at::Tensor ChannelsLast(const at::Tensor& images) {
  return images.permute({0, 2, 3, 1}).contiguous();  // nothing to copy in the usual case
}

at::Tensor Pad(const at::Tensor& images, const Window& window, double value) {
  const Extent& before = window.pad_before;
  const Extent& after = window.pad_after;
  if (after.height == 0 && after.width == 0) {
    return images;
  }
  // Pairs (before, after) from the last axis to the first.
  return at::constant_pad_nd(
      images, {0, 0, before.width, after.width, before.height, after.height}, value);
}

at::Tensor Activate(Activation activation, const at::Tensor& values) {
  switch (activation) {
    case Activation::kRelu:
      return values.relu();
    case Activation::kSigmoid:
      return values.sigmoid();
    case Activation::kSoftmax:
      return values.softmax(-1);  // over channels, as in Keras
    case Activation::kLinear:
      break;
  }
  return values;
}

at::Tensor ShiftedRight(const at::Tensor& bits, int64_t count) {
  // int64 shifts its sign in; uint64, whose shift is meant, has no operations.
  return bits.bitwise_right_shift(count).bitwise_and((int64_t{1} << (64 - count)) - 1);
}

// Mix64 (prng.h) of each element; products and sums wrap alike in both kinds of integers.
at::Tensor Mixed(at::Tensor bits) {
  bits = bits.add(static_cast<int64_t>(0x9e3779b97f4a7c15U));
  bits = bits.bitwise_xor(ShiftedRight(bits, 30)).mul(static_cast<int64_t>(0xbf58476d1ce4e5b9U));
  bits = bits.bitwise_xor(ShiftedRight(bits, 27)).mul(static_cast<int64_t>(0x94d049bb133111ebU));
  return bits.bitwise_xor(ShiftedRight(bits, 31));
}

// Walks the layer list and appends the operations of each layer.
class AutogradNetworkBuilder {
 public:
  AutogradNetworkBuilder(const TrainingSpec& spec,
                         const std::vector<LayerShape>& shapes,
                         const std::vector<at::Tensor>& parameters)
      : spec_(spec), shapes_(shapes), parameters_(parameters) {}

  AutogradNetwork Build() && {
    network_.loss = spec_.loss;
    for (index_ = 0; index_ < spec_.model.layers.size(); ++index_) {
      std::visit([this](const auto& layer) { Add(layer); }, spec_.model.layers[index_]);
    }
    return std::move(network_);
  }

 private:
  const std::vector<int64_t>& InputShape() const {
    return index_ == 0 ? spec_.model.input_shape : shapes_[index_ - 1].output;
  }

  Window WindowOf(Extent size, Extent strides) const {
    return MakeWindow(InputShape(), shapes_[index_].output, size, strides);
  }

  at::Tensor TakeParameter() { return parameters_[next_parameter_++]; }

  void AddActivation(Activation activation) {
    if (index_ + 1 == spec_.model.layers.size()) {
      if (const auto absorbed = AbsorbActivation(spec_.loss, activation)) {
        network_.loss = *absorbed;
        return;
      }
    }
    if (activation != Activation::kLinear) {
      network_.layers.push_back([activation](const at::Tensor& values, const PassOptions&) {
        return Activate(activation, values);
      });
    }
  }

  void Add(const DenseLayer& layer) {
    const at::Tensor kernel = TakeParameter();
    const at::Tensor bias = TakeParameter();
    network_.layers.push_back([kernel, bias, in = spec_.precision](const at::Tensor& values,
                                                                   const PassOptions&) {
      return Rounded(
          at::addmm(RoundedWeight(bias, in), Rounded(values, in), RoundedWeight(kernel, in)), in);
    });
    AddActivation(layer.activation);
  }

  void Add(const Conv2DLayer& layer) {
    const at::Tensor kernel = TakeParameter();
    const at::Tensor bias = TakeParameter();
    const Window window = WindowOf(layer.kernel_size, layer.strides);
    network_.layers.push_back(
        [kernel, bias, window, in = spec_.precision](const at::Tensor& values, const PassOptions&) {
          const at::Tensor images = Pad(Rounded(values, in), window, 0);
          const at::Tensor output = at::conv2d(ChannelsSecond(images),
                                               RoundedWeight(kernel, in).permute({3, 2, 0, 1}),
                                               RoundedWeight(bias, in),
                                               {window.strides.height, window.strides.width});
          return Rounded(ChannelsLast(output), in);
        });
    AddActivation(layer.activation);
  }

  void Add(const MaxPooling2DLayer& layer) {
    const Window window = WindowOf(layer.pool_size, layer.strides);
    network_.layers.push_back([window](const at::Tensor& values, const PassOptions&) {
      const at::Tensor images = Pad(values, window, -std::numeric_limits<double>::infinity());
      return ChannelsLast(at::max_pool2d(ChannelsSecond(images),
                                         {window.size.height, window.size.width},
                                         {window.strides.height, window.strides.width}));
    });
  }

  void Add(const FlattenLayer& /*layer*/) {
    network_.layers.push_back(
        [](const at::Tensor& values, const PassOptions&) { return values.flatten(1); });
  }

  void Add(const DropoutLayer& layer) {
    if (layer.rate <= 0) {
      return;
    }
    const auto number = static_cast<int64_t>(network_.dropouts.size());
    network_.dropouts.push_back({index_, ElementCount(InputShape())});
    network_.layers.push_back(
        [rate = layer.rate, number](const at::Tensor& values, const PassOptions& options) {
          if (!options.is_training) {
            return values;
          }
          return values * DropoutFactors(options.dropout_bases.select(0, number), rate, values);
        });
  }

  const TrainingSpec& spec_;
  const std::vector<LayerShape>& shapes_;
  const std::vector<at::Tensor>& parameters_;
  AutogradNetwork network_;
  std::size_t index_ = 0;  // of the layer being added
  std::size_t next_parameter_ = 0;
};

}  // namespace

at::Tensor AutogradNetwork::Forward(at::Tensor values, const PassOptions& options) const {
  for (const Layer& layer : layers) {
    values = layer(values, options);
  }
  return values;
}

AutogradNetwork BuildAutogradNetwork(const TrainingSpec& spec,
                                     const std::vector<LayerShape>& shapes,
                                     const std::vector<at::Tensor>& parameters) {
  return AutogradNetworkBuilder(spec, shapes, parameters).Build();
}

std::vector<int64_t> DropoutBases(const std::vector<DropoutStream>& dropouts,
                                  uint64_t dropout_seed,
                                  int64_t first_sample) {
  std::vector<int64_t> bases;
  for (const DropoutStream& dropout : dropouts) {
    // Each layer draws from a stream of its own.
    const uint64_t seed = Mix64(dropout_seed) + dropout.layer_index;
    const auto first_index = static_cast<uint64_t>(first_sample * dropout.elements_per_sample);
    bases.push_back(static_cast<int64_t>(Mix64(seed) + first_index));
  }
  return bases;
}

at::Tensor DropoutFactors(const at::Tensor& base, double rate, const at::Tensor& like) {
  constexpr double kTwoTo32 = 4294967296.0;
  const auto threshold = static_cast<int64_t>(rate * kTwoTo32);
  const at::Tensor indexes =
      at::arange(like.numel(), at::TensorOptions().dtype(at::kLong).device(like.device()));
  const at::Tensor is_kept = ShiftedRight(Mixed(indexes.add(base)), 32).ge(threshold);
  return is_kept.to(at::kFloat).mul(static_cast<float>(1 / (1 - rate))).view(like.sizes());
}

}  // namespace lockstep::runtime
