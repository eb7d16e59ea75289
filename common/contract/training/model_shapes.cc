#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/contract/training/training_spec.h"

namespace lockstep {
namespace {

// Bounds that keep every product below inside int64 and refuse slips of the pen (a kernel of 3000)
// before anything is allocated. Choice: far above what fits on one device.
constexpr int64_t kElementsMax = int64_t{1} << 28;
constexpr int64_t kParametersMax = int64_t{1} << 31;

Error Misfit(std::string field, std::string message) {
  return Error(ErrorCode::kInvalidArgument, std::move(message)).WithField(std::move(field));
}

std::string FormatExtent(const Extent& extent) {
  return std::to_string(extent.height) + " x " + std::to_string(extent.width);
}

// What a window that slides over [height, width, channels] leaves of height and width.
Result<Extent> Slide(const std::vector<int64_t>& input,
                     const Extent& window,
                     const Extent& strides,
                     Padding padding) {
  if (padding == Padding::kSame) {
    return Extent{(input[0] + strides.height - 1) / strides.height,
                  (input[1] + strides.width - 1) / strides.width};
  }
  if (window.height > input[0] || window.width > input[1]) {
    return Error(ErrorCode::kInvalidArgument,
                 "a window of " + FormatExtent(window) + " found, but the layer's input is " +
                     FormatShape(input) + "; expected at most " +
                     FormatExtent({input[0], input[1]}) + ", or padding: same");
  }
  return Extent{(input[0] - window.height) / strides.height + 1,
                (input[1] - window.width) / strides.width + 1};
}

Status RequireImage(const std::vector<int64_t>& input, std::string_view type) {
  if (input.size() == 3) {
    return OkStatus();
  }
  return Misfit("",
                std::string(type) + " reads [height, width, channels], but its input is " +
                    FormatShape(input));
}

// Infers one layer's shape from its input. Error fields are relative to the layer.
class LayerShaper {
 public:
  explicit LayerShaper(const std::vector<int64_t>& input) : input_(input) {}

  Result<LayerShape> operator()(const DenseLayer& layer) const {
    if (input_.size() != 1) {
      return Misfit("",
                    "Dense reads a flat input, but its input is " + FormatShape(input_) +
                        "; put {type: Flatten} before it");
    }
    return LayerShape{{layer.units}, (input_[0] + 1) * layer.units};
  }

  Result<LayerShape> operator()(const Conv2DLayer& layer) const {
    LOCKSTEP_RETURN_IF_ERROR(RequireImage(input_, "Conv2D"));
    const Result<Extent> extent = Slide(input_, layer.kernel_size, layer.strides, layer.padding);
    if (!extent.ok()) {
      return Misfit("kernelSize", extent.error().message());
    }
    const int64_t weights =
        layer.kernel_size.height * layer.kernel_size.width * input_[2] * layer.filters;
    return LayerShape{{extent->height, extent->width, layer.filters}, weights + layer.filters};
  }

  Result<LayerShape> operator()(const MaxPooling2DLayer& layer) const {
    LOCKSTEP_RETURN_IF_ERROR(RequireImage(input_, "MaxPooling2D"));
    const Result<Extent> extent = Slide(input_, layer.pool_size, layer.strides, layer.padding);
    if (!extent.ok()) {
      return Misfit("poolSize", extent.error().message());
    }
    return LayerShape{{extent->height, extent->width, input_[2]}, 0};
  }

  Result<LayerShape> operator()(const FlattenLayer&) const {
    int64_t elements = 1;
    for (const int64_t extent : input_) {
      elements *= extent;
    }
    return LayerShape{{elements}, 0};
  }

  Result<LayerShape> operator()(const DropoutLayer&) const { return LayerShape{input_, 0}; }

 private:
  const std::vector<int64_t>& input_;
};

// Whether one sample of this shape stays within kElementsMax. Never overflows.
bool IsBounded(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) {
    if (extent > kElementsMax / elements) {
      return false;
    }
    elements *= extent;
  }
  return true;
}

}  // namespace

Result<std::vector<LayerShape>> InferShapes(const ModelSpec& model) {
  if (!IsBounded(model.input_shape)) {
    return Misfit("inputShape",
                  FormatShape(model.input_shape) + " found, expected at most " +
                      std::to_string(kElementsMax) + " elements in one sample");
  }
  std::vector<LayerShape> shapes;
  int64_t parameter_count = 0;
  for (const Layer& layer : model.layers) {
    const std::string path = "layers[" + std::to_string(shapes.size()) + "]";
    const auto& input = shapes.empty() ? model.input_shape : shapes.back().output;
    Result<LayerShape> shape = std::visit(LayerShaper(input), layer);
    if (!shape.ok()) {
      const std::string& field = shape.error().field();
      return Misfit(field.empty() ? path : path + "." + field, shape.error().message());
    }
    parameter_count += shape->parameter_count;
    if (!IsBounded(shape->output)) {
      return Misfit(path,
                    "has output shape " + FormatShape(shape->output) + ", expected at most " +
                        std::to_string(kElementsMax) + " elements in one sample");
    }
    if (parameter_count > kParametersMax) {
      return Misfit(path,
                    "brings the model to " + std::to_string(parameter_count) +
                        " parameters, expected at most " + std::to_string(kParametersMax));
    }
    shapes.push_back(std::move(shape).value());
  }
  return shapes;
}

std::string FormatShape(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t extent : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + "]";
}

}  // namespace lockstep
