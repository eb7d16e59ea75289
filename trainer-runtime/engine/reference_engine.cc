#include "trainer-runtime/engine/reference_engine.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "trainer-runtime/engine/backward_progress.h"
#include "trainer-runtime/engine/guarded_update.h"
#include "trainer-runtime/engine/initializer.h"
#include "trainer-runtime/engine/loss.h"
#include "trainer-runtime/engine/low_precision.h"
#include "trainer-runtime/engine/optimizer.h"
#include "trainer-runtime/engine/parameter_store.h"
#include "trainer-runtime/engine/vector_clones.h"

namespace lockstep::runtime {
namespace {

struct Dense {
  std::size_t layer_index = 0;
  std::size_t in = 0;
  std::size_t out = 0;
  Activation activation = Activation::kLinear;
};

Error Unsupported(std::size_t layer_index, std::string message) {
  return Error(ErrorCode::kInvalidArgument, "the reference engine " + std::move(message))
      .WithField("model.layers[" + std::to_string(layer_index) + "]");
}

// The Dense layers with their widths; Flatten only changes shapes.
Result<std::vector<Dense>> PlanLayers(const ModelSpec& model) {
  std::size_t width = 1;
  for (const int64_t extent : model.input_shape) {
    width *= static_cast<std::size_t>(extent);
  }
  std::vector<Dense> plan;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (std::holds_alternative<FlattenLayer>(model.layers[i])) {
      continue;
    }
    const auto* dense = std::get_if<DenseLayer>(&model.layers[i]);
    if (dense == nullptr) {
      return Unsupported(i, "supports only Flatten and Dense layers");
    }
    plan.push_back({i, width, static_cast<std::size_t>(dense->units), dense->activation});
    width = plan.back().out;
  }
  if (plan.empty()) {
    return Unsupported(0, "needs a Dense layer");
  }
  return plan;
}

float Activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kRelu:
      return std::max(x, 0.0f);
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::kLinear:
    case Activation::kSoftmax:  // only as the last one, where the loss has absorbed it
      break;
  }
  return x;
}

// d(output)/d(input) of an activation, given its output.
float Slope(Activation activation, float output) {
  switch (activation) {
    case Activation::kRelu:
      return output > 0 ? 1.0f : 0.0f;
    case Activation::kSigmoid:
      return output * (1 - output);
    case Activation::kLinear:
    case Activation::kSoftmax:
      break;
  }
  return 1;
}

// sums[o] += sum over k of row[k] * matrix[k, o], in the order of k.
LOCKSTEP_VECTOR_CLONES
void AddProduct(const float* __restrict row,
                const float* __restrict matrix,
                std::size_t in,
                std::size_t out,
                float* __restrict sums) {
  for (std::size_t k = 0; k < in; ++k) {
    for (std::size_t o = 0; o < out; ++o) {
      sums[o] += row[k] * matrix[k * out + o];
    }
  }
}

// matrix[k, o] += row[k] * slopes[o].
LOCKSTEP_VECTOR_CLONES
void AddOuterProduct(const float* __restrict row,
                     const float* __restrict slopes,
                     std::size_t in,
                     std::size_t out,
                     float* __restrict matrix) {
  for (std::size_t k = 0; k < in; ++k) {
    for (std::size_t o = 0; o < out; ++o) {
      matrix[k * out + o] += row[k] * slopes[o];
    }
  }
}

class ReferenceEngine final : public Engine {
 public:
  ReferenceEngine(std::vector<Dense> layers,
                  LossSpec loss,
                  const TrainingSpec& spec,
                  ParameterStore store)
      : layers_(std::move(layers)),
        loss_(loss),
        precision_(spec.precision),
        optimizer_(spec.optimizer),
        store_(std::move(store)),
        operands_(layers_.size()),
        outputs_(layers_.size()) {}

  std::string Description() const override { return "reference loops, 1 thread"; }

  std::vector<TensorView> Tensors() override { return store_.Tensors(); }

  std::span<float> Gradients() override { return store_.Gradients(); }

  Status LendGradients(std::span<float> memory) override { return store_.LendGradients(memory); }

  Status LendState(std::span<float> parameters, std::span<float> slots) override {
    return store_.LendState(parameters, slots);
  }

  Result<StepResult> ComputeGradients(const Batch& batch, const StepOptions& options) override {
    LOCKSTEP_RETURN_IF_ERROR(RefuseDevicesOptions(options));
    LOCKSTEP_RETURN_IF_ERROR(Forward(batch));
    std::vector<float> gradient(outputs_.back().size());
    LOCKSTEP_ASSIGN_OR_RETURN(
        StepResult result,
        ComputeLoss(
            loss_, PredictionsOf(batch), options.gradient_scale * options.loss_scale, gradient));
    BackwardProgress progress = ProgressOnHost(options, store_.Offset(2 * layers_.size()));
    for (std::size_t i = layers_.size(); i-- > 0;) {
      gradient = Backward(i, batch, std::move(gradient));
      if (precision_ == Precision::kFloat16) {
        const bool has_kernel = TakeOffScale(options.loss_scale, store_.Gradient(2 * i));
        const bool has_bias = TakeOffScale(options.loss_scale, store_.Gradient(2 * i + 1));
        result.overflow_count = has_kernel && has_bias ? result.overflow_count : 1;
      }
      progress.ReadyFrom(store_.Offset(2 * i));
    }
    return result;
  }

  Status ApplyUpdate(int64_t update_number) override {
    ApplyOptimizer(optimizer_, update_number, store_.Flat());
    return OkStatus();
  }

  Result<StepResult> Evaluate(const Batch& batch) override {
    LOCKSTEP_RETURN_IF_ERROR(Forward(batch));
    return ComputeLoss(loss_, PredictionsOf(batch), 1, {});
  }

 private:
  // What a layer multiplies, in the network's precision.
  struct Operands {
    std::vector<float> input;
    std::vector<float> kernel;
    std::vector<float> bias;
  };

  std::vector<float> Rounded(std::span<const float> values) const {
    std::vector<float> rounded(values.begin(), values.end());
    RoundTo(precision_, rounded);
    return rounded;
  }

  Predictions PredictionsOf(const Batch& batch) const {
    return {.outputs = outputs_.back(),
            .labels = batch.labels,
            .sample_count = batch.sample_count,
            .output_width = static_cast<int64_t>(layers_.back().out)};
  }

  Status Forward(const Batch& batch) {
    const auto sample_count = static_cast<std::size_t>(batch.sample_count);
    if (batch.inputs.size() != sample_count * layers_.front().in) {
      return Error(ErrorCode::kInvalidArgument,
                   "a batch of " + std::to_string(sample_count) + " samples needs " +
                       std::to_string(sample_count * layers_.front().in) + " inputs, got " +
                       std::to_string(batch.inputs.size()));
    }
    std::span<const float> input = batch.inputs;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Dense& layer = layers_[i];
      operands_[i] = {
          Rounded(input), Rounded(store_.Parameter(2 * i)), Rounded(store_.Parameter(2 * i + 1))};
      const auto& [inputs, kernel, bias] = operands_[i];
      outputs_[i].resize(sample_count * layer.out);
      for (std::size_t n = 0; n < sample_count; ++n) {
        float* sums = &outputs_[i][n * layer.out];
        std::copy(bias.begin(), bias.end(), sums);
        AddProduct(&inputs[n * layer.in], kernel.data(), layer.in, layer.out, sums);
      }
      RoundTo(precision_, outputs_[i]);
      for (float& output : outputs_[i]) {
        output = Activate(layer.activation, output);
      }
      input = outputs_[i];
    }
    return OkStatus();
  }

  // Fills the layer's gradients from d(loss)/d(its output) and returns d(loss)/d(its input).
  std::vector<float> Backward(std::size_t i, const Batch& batch, std::vector<float> gradient) {
    const Dense& layer = layers_[i];
    const auto& [input, kernel, bias] = operands_[i];
    const auto kernel_gradient = store_.Gradient(2 * i);
    const auto bias_gradient = store_.Gradient(2 * i + 1);
    std::fill(kernel_gradient.begin(), kernel_gradient.end(), 0.0f);
    std::fill(bias_gradient.begin(), bias_gradient.end(), 0.0f);
    for (std::size_t at = 0; at < gradient.size(); ++at) {
      gradient[at] *= Slope(layer.activation, outputs_[i][at]);
    }
    RoundTo(precision_, gradient);
    std::vector<float> input_gradient(input.size());
    for (std::size_t n = 0; n < static_cast<std::size_t>(batch.sample_count); ++n) {
      const float* slopes = &gradient[n * layer.out];
      for (std::size_t o = 0; o < layer.out; ++o) {
        bias_gradient[o] += slopes[o];
      }
      AddOuterProduct(&input[n * layer.in], slopes, layer.in, layer.out, kernel_gradient.data());
      if (i == 0) {
        continue;  // nobody asks for the gradient of the data
      }
      for (std::size_t k = 0; k < layer.in; ++k) {
        for (std::size_t o = 0; o < layer.out; ++o) {
          input_gradient[n * layer.in + k] += slopes[o] * kernel[k * layer.out + o];
        }
      }
    }
    RoundTo(precision_, input_gradient);
    return input_gradient;
  }

  std::vector<Dense> layers_;
  LossSpec loss_;
  Precision precision_;
  OptimizerSpec optimizer_;
  ParameterStore store_;
  std::vector<Operands> operands_;           // of each layer, from the last Forward()
  std::vector<std::vector<float>> outputs_;  // of each layer, from the last Forward()
};

}  // namespace

Result<std::unique_ptr<Engine>> MakeReferenceEngine(const TrainingSpec& spec) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<Dense> layers, PlanLayers(spec.model));
  const std::optional<LossSpec> loss = AbsorbActivation(spec.loss, layers.back().activation);
  if (loss) {
    layers.back().activation = Activation::kLinear;
  }
  std::vector<ParameterShape> shapes;
  for (const Dense& layer : layers) {
    if (layer.activation == Activation::kSoftmax) {
      return Unsupported(layer.layer_index, "supports softmax only where the loss includes it");
    }
    const std::string name = "layer" + std::to_string(layer.layer_index);
    const auto in = static_cast<int64_t>(layer.in);
    const auto out = static_cast<int64_t>(layer.out);
    shapes.push_back({name + "/kernel", {in, out}});
    shapes.push_back({name + "/bias", {out}});
  }
  ParameterStore store(std::move(shapes), OptimizerSlotNames(spec.optimizer));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Fan fan{static_cast<int64_t>(layers[i].in), static_cast<int64_t>(layers[i].out)};
    FillGlorotUniform(static_cast<uint64_t>(spec.seed),
                      static_cast<int64_t>(layers[i].layer_index),
                      fan,
                      store.Parameter(2 * i));
  }
  return std::unique_ptr<Engine>(std::make_unique<ReferenceEngine>(
      std::move(layers), loss.value_or(spec.loss), spec, std::move(store)));
}

}  // namespace lockstep::runtime
