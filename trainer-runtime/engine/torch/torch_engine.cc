#include "trainer-runtime/engine/torch/torch_engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "trainer-runtime/engine/backward_progress.h"
#include "trainer-runtime/engine/guarded_update.h"
#include "trainer-runtime/engine/loss.h"
#include "trainer-runtime/engine/low_precision.h"
#include "trainer-runtime/engine/optimizer.h"
#include "trainer-runtime/engine/torch/torch_calls.h"
#include "trainer-runtime/engine/torch/torch_network.h"

namespace lockstep::runtime {
namespace {

// WithTorch, without autograd.
template <typename Call>
auto WithoutAutograd(const Call& call) -> decltype(call()) {
  return WithTorch([&]() -> decltype(call()) {
    const c10::InferenceMode no_autograd;
    return call();
  });
}

class TorchEngine final : public Engine {
 public:
  TorchEngine(TorchNetwork network, const TrainingSpec& spec)
      : network_(std::move(network)),
        precision_(spec.precision),
        optimizer_(spec.optimizer),
        last_with_input_gradient_(FirstWithParameters()) {}

  std::string Description() const override { return DescribeTorch(); }

  std::vector<TensorView> Tensors() override { return network_.store->Tensors(); }

  std::span<float> Gradients() override { return network_.store->Gradients(); }

  Status LendGradients(std::span<float> memory) override {
    return WithoutAutograd([&]() -> Status { return runtime::LendGradients(&network_, memory); });
  }

  Status LendState(std::span<float> parameters, std::span<float> slots) override {
    return WithoutAutograd(
        [&]() -> Status { return runtime::LendState(&network_, parameters, slots); });
  }

  Result<StepResult> ComputeGradients(const Batch& batch, const StepOptions& options) override {
    LOCKSTEP_RETURN_IF_ERROR(RefuseDevicesOptions(options));
    LOCKSTEP_RETURN_IF_ERROR(CheckInputs(batch));
    BackwardProgress progress =
        ProgressOnHost(options, static_cast<int64_t>(network_.store->Gradients().size()));
    if (batch.sample_count == 0) {
      std::ranges::fill(network_.store->Gradients(), 0.0f);
      progress.ReadyFrom(0);
      return StepResult{};
    }
    return WithoutAutograd([&]() -> Result<StepResult> {
      const at::Tensor output = Forward(batch, {true, options.dropout_seed, options.first_sample});
      at::Tensor gradient = at::empty_like(output);
      const auto gradient_values =
          std::span<float>(gradient.data_ptr<float>(), static_cast<std::size_t>(gradient.numel()));
      LOCKSTEP_ASSIGN_OR_RETURN(StepResult result,
                                ComputeLoss(network_.loss,
                                            PredictionsOf(output, batch),
                                            options.gradient_scale * options.loss_scale,
                                            gradient_values));
      std::span<float> rest = network_.store->Gradients();
      for (std::size_t i = network_.layers.size(); i-- > last_with_input_gradient_;) {
        gradient = network_.layers[i]->Backward(gradient, i > last_with_input_gradient_);
        const auto offset = static_cast<std::size_t>(network_.gradient_offsets[i]);
        if (precision_ == Precision::kFloat16 &&
            !TakeOffScale(options.loss_scale, rest.subspan(offset))) {
          result.overflow_count = 1;
        }
        rest = rest.first(offset);
        progress.ReadyFrom(network_.gradient_offsets[i]);
      }
      return result;
    });
  }

  Status ApplyUpdate(int64_t update_number) override {
    ApplyOptimizer(optimizer_, update_number, network_.store->Flat());
    return OkStatus();
  }

  Result<StepResult> Evaluate(const Batch& batch) override {
    LOCKSTEP_RETURN_IF_ERROR(CheckInputs(batch));
    if (batch.sample_count == 0) {
      return StepResult{};
    }
    return WithoutAutograd([&]() -> Result<StepResult> {
      const at::Tensor output = Forward(batch, {});
      return ComputeLoss(network_.loss, PredictionsOf(output, batch), 1, {});
    });
  }

 private:
  // Layers before the first one with parameters take no part in the way back.
  std::size_t FirstWithParameters() const {
    std::size_t index = 0;
    while (index < network_.layers.size() && !network_.layers[index]->has_parameters()) {
      ++index;
    }
    return index;
  }

  Status CheckInputs(const Batch& batch) const {
    const int64_t expected = batch.sample_count * network_.input_size;
    if (batch.sample_count >= 0 && static_cast<int64_t>(batch.inputs.size()) == expected) {
      return OkStatus();
    }
    return Error(ErrorCode::kInvalidArgument,
                 "a batch of " + std::to_string(batch.sample_count) + " samples of shape " +
                     FormatShape(network_.input_shape) + " needs " + std::to_string(expected) +
                     " inputs, got " + std::to_string(batch.inputs.size()));
  }

  at::Tensor Forward(const Batch& batch, const ForwardOptions& options) {
    std::vector<int64_t> shape{batch.sample_count};
    shape.insert(shape.end(), network_.input_shape.begin(), network_.input_shape.end());
    // LibTorch has no tensor of constants; no layer writes to its input.
    at::Tensor values = at::from_blob(const_cast<float*>(batch.inputs.data()), shape, at::kFloat);
    for (const auto& layer : network_.layers) {
      values = layer->Forward(values, options);
    }
    return values;
  }

  Predictions PredictionsOf(const at::Tensor& output, const Batch& batch) const {
    return {.outputs = {output.data_ptr<float>(), static_cast<std::size_t>(output.numel())},
            .labels = batch.labels,
            .sample_count = batch.sample_count,
            .output_width = network_.output_width};
  }

  TorchNetwork network_;
  Precision precision_;
  OptimizerSpec optimizer_;
  std::size_t last_with_input_gradient_;
};

}  // namespace

Result<std::unique_ptr<Engine>> MakeTorchEngine(const TrainingSpec& spec) {
  return WithoutAutograd([&]() -> Result<std::unique_ptr<Engine>> {
    LOCKSTEP_ASSIGN_OR_RETURN(TorchNetwork network, BuildTorchNetwork(spec));
    return std::unique_ptr<Engine>(std::make_unique<TorchEngine>(std::move(network), spec));
  });
}

}  // namespace lockstep::runtime
