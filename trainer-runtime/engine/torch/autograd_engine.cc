#include "trainer-runtime/engine/torch/autograd_engine.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "trainer-runtime/engine/backward_progress.h"
#include "trainer-runtime/engine/loss.h"
#include "trainer-runtime/engine/parameter_plan.h"
#include "trainer-runtime/engine/parameter_store.h"
#include "trainer-runtime/engine/torch/autograd_loss.h"
#include "trainer-runtime/engine/torch/autograd_network.h"
#include "trainer-runtime/engine/torch/torch_calls.h"
#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {
namespace {

int64_t Product(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t extent : shape) {
    product *= extent;
  }
  return product;
}

// The host's memory as a tensor.
at::Tensor Over(std::span<float> values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat);
}

// What Backward makes of the gradients as they come, parameter by parameter in any order.
class GradientIntake {
 public:
  // `slices` are where the gradients go, in the parameters' order; `offsets` where each begins.
  GradientIntake(const StepOptions& options,
                 bool takes_scale_off,
                 std::span<const at::Tensor> slices,
                 std::span<const int64_t> offsets)
      : takes_scale_off_(takes_scale_off),
        inverse_scale_(1 / options.loss_scale),
        slices_(slices),
        offsets_(offsets),
        progress_(options.on_ready, offsets.back()),
        has_come_(slices.size()),
        missing_count_(slices.size()) {}

  void Take(std::size_t parameter, const at::Tensor& gradient) {
    at::Tensor slice = slices_[parameter];
    slice.copy_(gradient);
    if (takes_scale_off_) {
      const at::Tensor has_overflown = slice.isfinite().all().logical_not();
      overflow_ = overflow_.defined() ? overflow_.logical_or(has_overflown) : has_overflown;
      slice.mul_(inverse_scale_);
    }
    has_come_[parameter] = true;
    // The listener hears of them from the last to the first, and a layer at a time.
    std::size_t first = missing_count_;
    while (first > 0 && has_come_[first - 1]) {
      --first;
    }
    if (first < missing_count_) {
      missing_count_ = first;
      progress_.ReadyFrom(offsets_[first]);
    }
  }

  // float64 []: 1 where some gradient was not a finite number. Undefined: none was looked at.
  const at::Tensor& overflow() const { return overflow_; }

  bool HasAll() const { return missing_count_ == 0; }

 private:
  bool takes_scale_off_;
  double inverse_scale_;
  std::span<const at::Tensor> slices_;
  std::span<const int64_t> offsets_;  // [parameters + 1]
  BackwardProgress progress_;
  std::vector<bool> has_come_;
  std::size_t missing_count_;  // of the first so many some has not come
  at::Tensor overflow_;
};

class AutogradEngine final : public Engine {
 public:
  AutogradEngine(const TrainingSpec& spec,
                 const std::vector<LayerShape>& shapes,
                 std::unique_ptr<TorchDevice> device)
      : spec_(spec),
        device_(std::move(device)),
        input_size_(Product(spec.model.input_shape)),
        output_width_(Product(shapes.back().output)) {
    const std::vector<PlannedParameter> plan = PlanParameters(spec.model, shapes);
    store_ = MakeParameters(spec, plan);
    PlaceState();
    for (std::size_t i = 0; i < plan.size(); ++i) {
      parameter_shapes_.push_back(plan[i].shape.shape);
      offsets_.push_back(store_->Offset(i));
    }
    offsets_.push_back(store_->Offset(plan.size()));
    for (std::size_t i = 0; i < plan.size(); ++i) {
      leaves_.push_back(Slice(state_.parameters, i).detach().requires_grad_());
      leaves_.back().register_hook(
          [this, i](const at::Tensor& gradient) { intake_->Take(i, gradient); });
    }
    CutGradients();
    network_ = BuildAutogradNetwork(spec, shapes, leaves_);
  }

  AutogradEngine(const AutogradEngine&) = delete;
  AutogradEngine& operator=(const AutogradEngine&) = delete;

  std::string Description() const override {
    return DescribeTorch() + ", autograd on " + device_->Describe();
  }

  std::vector<TensorView> Tensors() override { return store_->Tensors(); }

  std::span<float> Gradients() override { return store_->Gradients(); }

  EngineBuffer GradientBuffer() override {
    return {.address = state_.gradients.data_ptr(),
            .byte_count = store_->Gradients().size_bytes(),
            .memory = device_->memory(),
            .device = std::max<int>(device_->place().index(), 0),
            .stream = device_->stream()};
  }

  Result<double> GradientLength() override {
    return WithTorch([&]() -> Result<double> {
      return at::linalg_vector_norm(state_.gradients, 2, c10::nullopt, false, at::kDouble)
          .item<double>();
    });
  }

  Status ScaleGradients(float factor) override {
    return WithTorch([&]() -> Status {
      state_.gradients.mul_(factor);
      return OkStatus();
    });
  }

  Status BringToHost(EnginePart part) override {
    return Copy(part, [](at::Tensor image, const at::Tensor& own) { image.copy_(own); });
  }

  Status BringToDevice(EnginePart part) override {
    return Copy(part, [](const at::Tensor& image, at::Tensor own) { own.copy_(image); });
  }

  Status LendGradients(std::span<float> memory) override {
    return WithTorch([&]() -> Status {
      LOCKSTEP_RETURN_IF_ERROR(store_->LendGradients(memory));
      if (device_->IsTheHostsMemory()) {
        state_.gradients = Over(memory);
        CutGradients();
      }
      return OkStatus();
    });
  }

  Status LendState(std::span<float> parameters, std::span<float> slots) override {
    if (!device_->IsTheHostsMemory()) {
      return Engine::LendState(parameters, slots);
    }
    return WithTorch([&]() -> Status {
      LOCKSTEP_RETURN_IF_ERROR(store_->LendState(parameters, slots));
      state_.parameters = Over(parameters);
      state_.slots = Over(slots);
      for (std::size_t i = 0; i < leaves_.size(); ++i) {
        leaves_[i].set_data(Slice(state_.parameters, i));  // the network's tensor is this one
      }
      return OkStatus();
    });
  }

  Result<StepResult> ComputeGradients(const Batch& batch, const StepOptions& options) override {
    LOCKSTEP_RETURN_IF_ERROR(CheckBatch(batch));
    return WithTorch([&]() -> Result<StepResult> {
      if (batch.sample_count == 0) {
        state_.gradients.zero_();
        BackwardProgress(options.on_ready, offsets_.back()).ReadyFrom(0);
        return StepResult{};
      }
      GradientIntake intake(
          options, spec_.precision == Precision::kFloat16, gradient_slices_, offsets_);
      intake_ = &intake;
      const BatchLoss loss = LossOf(batch, {true, options.dropout_seed, options.first_sample});
      if (!leaves_.empty()) {
        (loss.loss_sum * (options.gradient_scale * options.loss_scale)).backward();
      }
      intake_ = nullptr;
      for (at::Tensor& leaf : leaves_) {
        leaf.mutable_grad().reset();  // it has been taken
      }
      if (!intake.HasAll()) {
        return Error(ErrorCode::kInternal, "backward has not made all gradients");
      }
      return Fetch(loss, intake.overflow());
    });
  }

  Status ApplyUpdate(int64_t update_number) override {
    return WithTorch(
        [&]() -> Status { return device_->Update(spec_.optimizer, update_number, state_); });
  }

  Result<StepResult> Evaluate(const Batch& batch) override {
    LOCKSTEP_RETURN_IF_ERROR(CheckBatch(batch));
    if (batch.sample_count == 0) {
      return StepResult{};
    }
    return WithTorch([&]() -> Result<StepResult> {
      const c10::NoGradGuard no_autograd;
      return Fetch(LossOf(batch, {}), {});
    });
  }

 private:
  // Puts all numbers where the device computes.
  void PlaceState() {
    const FlatState flat = store_->Flat();
    state_ = {Over(flat.parameters), Over(store_->Gradients()), Over(flat.slots)};
    if (!device_->IsTheHostsMemory()) {
      for (at::Tensor* part : {&state_.parameters, &state_.gradients, &state_.slots}) {
        *part = part->to(device_->place(), at::kFloat, /*non_blocking=*/false, /*copy=*/true);
      }
    }
  }

  at::Tensor Slice(const at::Tensor& flat, std::size_t parameter) const {
    const int64_t begin = offsets_[parameter];
    return flat.narrow(0, begin, offsets_[parameter + 1] - begin)
        .view(parameter_shapes_[parameter]);
  }

  void CutGradients() {
    gradient_slices_.clear();
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      gradient_slices_.push_back(Slice(state_.gradients, i));
    }
  }

  // Calls `copy` with the host's image of each run of numbers of `part` and the device's own.
  template <typename CopyRun>
  Status Copy(EnginePart part, const CopyRun& copy) {
    if (device_->IsTheHostsMemory()) {
      return OkStatus();
    }
    return WithTorch([&]() -> Status {
      if (part == EnginePart::kGradients) {
        copy(Over(store_->Gradients()), state_.gradients);
        return OkStatus();
      }
      const FlatState flat = store_->Flat();
      copy(Over(flat.parameters), state_.parameters);
      copy(Over(flat.slots), state_.slots);
      return OkStatus();
    });
  }

  Status CheckBatch(const Batch& batch) const {
    const int64_t expected = batch.sample_count * input_size_;
    if (batch.sample_count < 0 || static_cast<int64_t>(batch.inputs.size()) != expected) {
      return Error(ErrorCode::kInvalidArgument,
                   "a batch of " + std::to_string(batch.sample_count) + " samples of shape " +
                       FormatShape(spec_.model.input_shape) + " needs " + std::to_string(expected) +
                       " inputs, got " + std::to_string(batch.inputs.size()));
    }
    return CheckLabels(spec_.loss, batch.labels, batch.sample_count, output_width_);
  }

  BatchLoss LossOf(const Batch& batch, const PassOptions& options) {
    std::vector<int64_t> shape{batch.sample_count};
    shape.insert(shape.end(), spec_.model.input_shape.begin(), spec_.model.input_shape.end());
    const auto label_count = static_cast<int64_t>(batch.labels.size());
    const at::Tensor labels =
        device_->Upload(batch.labels, {batch.sample_count, label_count / batch.sample_count});
    const at::Tensor outputs = network_.Forward(device_->Upload(batch.inputs, shape), options);
    return RecordLoss(network_.loss, outputs.reshape({batch.sample_count, output_width_}), labels);
  }

  // The one wait for the device in a step.
  static StepResult Fetch(const BatchLoss& loss, const at::Tensor& overflow) {
    std::vector<at::Tensor> numbers{loss.loss_sum.detach(), loss.correct_count};
    if (overflow.defined()) {
      numbers.push_back(overflow.to(at::kDouble));
    }
    const at::Tensor fetched = at::stack(numbers).to(at::kCPU);
    const double* const values = fetched.data_ptr<double>();
    return {.loss_sum = values[0],
            .correct_count = static_cast<int64_t>(values[1]),
            .overflow_count = overflow.defined() && values[2] != 0 ? 1 : 0};
  }

  TrainingSpec spec_;
  std::unique_ptr<TorchDevice> device_;
  int64_t input_size_;  // of one sample
  int64_t output_width_;
  std::unique_ptr<ParameterStore> store_;  // the host's image
  DeviceState state_;
  std::vector<std::vector<int64_t>> parameter_shapes_;
  std::vector<int64_t> offsets_;             // [parameters + 1], into the flat buffers
  std::vector<at::Tensor> leaves_;           // the parameters, over state_.parameters
  std::vector<at::Tensor> gradient_slices_;  // of each, over state_.gradients
  AutogradNetwork network_;
  GradientIntake* intake_ = nullptr;  // while backward runs
};

}  // namespace

Result<std::unique_ptr<Engine>> MakeAutogradEngine(const TrainingSpec& spec,
                                                   std::unique_ptr<TorchDevice> device) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<LayerShape> shapes, ShapesOf(spec.model));
  return WithTorch([&]() -> Result<std::unique_ptr<Engine>> {
    return std::unique_ptr<Engine>(
        std::make_unique<AutogradEngine>(spec, shapes, std::move(device)));
  });
}

}  // namespace lockstep::runtime
