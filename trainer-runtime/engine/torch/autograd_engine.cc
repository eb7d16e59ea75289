#include "trainer-runtime/engine/torch/autograd_engine.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "trainer-runtime/engine/backward_progress.h"
#include "trainer-runtime/engine/capture_policy.h"
#include "trainer-runtime/engine/guarded_update.h"
#include "trainer-runtime/engine/loss.h"
#include "trainer-runtime/engine/parameter_plan.h"
#include "trainer-runtime/engine/parameter_store.h"
#include "trainer-runtime/engine/torch/autograd_loss.h"
#include "trainer-runtime/engine/torch/autograd_network.h"
#include "trainer-runtime/engine/torch/gradient_intake.h"
#include "trainer-runtime/engine/torch/pinned_memory.h"
#include "trainer-runtime/engine/torch/step_feed.h"
#include "trainer-runtime/engine/torch/torch_calls.h"
#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {
namespace {

// The host's memory as a tensor.
at::Tensor Over(std::span<float> values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat);
}

class AutogradEngine final : public Engine {
 public:
  AutogradEngine(const TrainingSpec& spec,
                 const std::vector<LayerShape>& shapes,
                 std::unique_ptr<TorchDevice> device)
      : spec_(spec),
        device_(std::move(device)),
        input_size_(ElementCount(spec.model.input_shape)),
        output_width_(ElementCount(shapes.back().output)),
        pinned_(device_.get()),
        feed_(device_.get(), [this](std::size_t count) { return pinned_.Allocate(count); }) {
    const std::shared_ptr<void> entered = device_->Enter();
    const std::vector<PlannedParameter> plan = PlanParameters(spec.model, shapes);
    store_ =
        MakeParameters(spec, plan, [this](std::size_t count) { return pinned_.Allocate(count); });
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
    numbers_ = at::zeros({sizeof(StepNumbers) / sizeof(int64_t)},
                         at::TensorOptions().dtype(at::kLong).device(device_->place()));
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
            .device = std::max<int>(device_->place().index(), 0)};
  }

  DeviceSums Sums() override {
    return {.numbers = {.address = numbers_.data_ptr(),
                        .byte_count = kStepSumCount * sizeof(double),
                        .type = NumberType::kFloat64,
                        .memory = device_->memory(),
                        .device = std::max<int>(device_->place().index(), 0)},
            .made = device_->mark(kEndMark),
            .after = device_->stream_after()};
  }

  Status Measure() override {
    return AfterSums([&]() -> Status {
      Number(&StepNumbers::length).copy_(LengthOfGradients());
      return OkStatus();
    });
  }

  Result<StepResult> TakeStep() override {
    return AfterSums([&]() -> Result<StepResult> {
      const StepNumbers numbers = FetchNumbers();
      StepResult result = ResultOf({}, numbers, /*has_update=*/false);
      result.gradient_length = numbers.length;  // the scale is off it
      return result;
    });
  }

  Status ScaleGradients(float factor) override {
    return OnDevice([&]() -> Status {
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
    return OnDevice([&]() -> Status {
      LOCKSTEP_RETURN_IF_ERROR(store_->LendGradients(memory));
      lent_pin_.reset();  // it may be the same memory
      lent_pin_ = pinned_.Pin(memory);
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
    if (device_->IsTheHostsMemory()) {
      LOCKSTEP_RETURN_IF_ERROR(RefuseDevicesOptions(options));
    }
    return OnDevice([&]() -> Result<StepResult> {
      const GuardedStep step = MakeGuardedStep(spec_, options);
      StepShape shape{batch.sample_count, options.update.has_value()};
      if (options.on_ready) {
        shape.ready_at = {options.ready_at.begin(), options.ready_at.end()};
      }
      const StepTensors tensors = Load(batch, step, options);
      is_untaken_ = true;  // whatever becomes of it
      LOCKSTEP_RETURN_IF_ERROR(Run(shape, tensors, options.on_ready));
      device_->Mark(kEndMark);
      if (options.next) {
        LOCKSTEP_RETURN_IF_ERROR(BringNext(options.next()));
      }
      if (!options.is_awaited) {
        return StepResult{};
      }
      return ResultOf(step, FetchNumbers(), shape.has_update);
    });
  }

  Status ApplyUpdate(int64_t update_number) override {
    return OnDevice(
        [&]() -> Status { return device_->Update(spec_.optimizer, update_number, state_); });
  }

  Result<StepResult> Evaluate(const Batch& batch) override {
    LOCKSTEP_RETURN_IF_ERROR(CheckBatch(batch));
    if (batch.sample_count == 0) {
      return StepResult{};
    }
    return OnDevice([&]() -> Result<StepResult> {
      const c10::NoGradGuard no_autograd;
      PutLoss(LossOf(Load(batch, {}, {}), {}));
      const StepNumbers numbers = FetchNumbers();
      return StepResult{.loss_sum = numbers.loss_sum,
                        .correct_count = static_cast<int64_t>(numbers.correct_count)};
    });
  }

  std::optional<std::string> TakeNotice() override {
    std::optional<std::string> notice = pinned_.TakeNotice();
    notice = notice.has_value() ? std::move(notice) : std::exchange(late_marks_, std::nullopt);
    return notice.has_value() ? std::move(notice) : captures_.TakeNotice();
  }

 private:
  // Of the device's marks: the end of a step, the end of one from a graph, that the next batch was
  // taken, and the first of a step's points.
  static constexpr std::size_t kEndMark = 0;
  static constexpr std::size_t kGraphMark = 1;
  static constexpr std::size_t kTakenMark = 2;
  static constexpr std::size_t kFirstMark = 3;

  // WithTorch, with what it asks of the device in the device's stream.
  template <typename Call>
  auto OnDevice(const Call& call) -> decltype(call()) {
    return WithTorch([&]() -> decltype(call()) {
      const std::shared_ptr<void> entered = device_->Enter();
      return call();
    });
  }

  // The same in the stream that waits for sums, of engines whose numbers are not the host's.
  template <typename Call>
  auto AfterSums(const Call& call) -> decltype(call()) {
    if (device_->IsTheHostsMemory()) {
      return Engine::Measure().error();
    }
    return WithTorch([&]() -> decltype(call()) {
      const std::shared_ptr<void> entered = device_->EnterAfter();
      return call();
    });
  }

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
    return OnDevice([&]() -> Status {
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

  // Everything of a step that is not the same in the next one.
  StepTensors Load(const Batch& batch, const GuardedStep& step, const StepOptions& options) {
    std::vector<int64_t> words(sizeof(step) / sizeof(int64_t));
    std::memcpy(words.data(), &step, sizeof(step));
    const std::vector<int64_t> bases =
        DropoutBases(network_.dropouts, options.dropout_seed, options.first_sample);
    words.insert(words.end(), bases.begin(), bases.end());
    if (is_untaken_) {
      FetchNumbers();  // of a step that was given up: what it came by may still be read
    }
    const int64_t moves_before = feed_.move_count();
    StepTensors tensors = options.is_prefetched && feed_.HasAhead(batch)
                              ? feed_.LoadAhead(batch, spec_.model.input_shape, words)
                              : feed_.Load(batch, spec_.model.input_shape, words);
    device_->Mark(kTakenMark);
    if (feed_.move_count() != moves_before) {
      captures_.Forget();  // and so the graph
    }
    return tensors;
  }

  // The next step's batch comes over while the device is at this step's.
  Status BringNext(const std::optional<Batch>& batch) {
    if (!batch.has_value() || batch->sample_count == 0) {
      return OkStatus();
    }
    LOCKSTEP_RETURN_IF_ERROR(CheckBatch(*batch));
    feed_.BringAhead(*batch, kTakenMark);
    return OkStatus();
  }

  // Work(), in the way that is best for steps of this shape.
  Status Run(const StepShape& shape, const StepTensors& tensors, const GradientsReady& listener) {
    StepWay way = device_->recorder() == nullptr ? StepWay::kEager : captures_.Next(shape);
    if (way == StepWay::kCapture || !captures_.needs_graph()) {
      graph_.reset();
    }
    if (way == StepWay::kCapture) {
      Result<std::unique_ptr<DeviceGraph>> graph =
          device_->recorder()->Record([=, this] { return Work(shape, tensors, nullptr); });
      if (graph.ok()) {
        captures_.Captured();
        graph_ = std::move(graph).value();
        NoteLateMarks(shape);
        way = StepWay::kReplay;
      } else {
        captures_.Failed(graph.error());
        way = StepWay::kEager;
      }
    }
    if (way != StepWay::kReplay) {
      return Work(shape, tensors, listener);
    }
    LOCKSTEP_RETURN_IF_ERROR(graph_->Launch());
    // Of marks that the graph makes late a wait might find those of the launch before.
    const bool are_own = device_->MarksAtLaunch();
    if (!are_own) {
      device_->Mark(kGraphMark);
    }
    ProgressOf(shape, [&](int64_t offset, int64_t count, std::size_t mark) {
      listener(offset, count, device_->mark(are_own ? mark : kGraphMark));
    }).ReadyFrom(0);
    return OkStatus();
  }

  void NoteLateMarks(const StepShape& shape) {
    if (shape.ready_at.has_value() && !device_->MarksAtLaunch()) {
      late_marks_ =
          "gradients of a step from the CUDA graph are summed only when the step has ended. With "
          "this driver, a wait could otherwise return for an event of the previous step";
    }
  }

  // Calls `tell` for each point of such a step, if it has any, with the number of its mark.
  template <typename Tell>
  BackwardProgress ProgressOf(const StepShape& shape, Tell tell) const {
    if (!shape.ready_at.has_value()) {
      return {{}, {}, offsets_.back()};
    }
    return {[tell, mark = kFirstMark](int64_t offset, int64_t count) mutable {
              tell(offset, count, mark++);
            },
            *shape.ready_at,
            offsets_.back()};
  }

  // All that a step asks of the device. It depends on `shape` and on what is in the tensors' memory
  // alone: whatever it read of the host's would stay as it was when it was captured. That has no
  // listener; Run tells whoever listens to a replay.
  Status Work(const StepShape& shape, const StepTensors& tensors, const GradientsReady& listener) {
    BackwardProgress progress =
        ProgressOf(shape, [&](int64_t offset, int64_t count, std::size_t mark) {
          device_->Mark(mark);
          if (listener) {
            listener(offset, count, device_->mark(mark));
          }
        });
    if (shape.sample_count == 0) {
      state_.gradients.zero_();
      numbers_.zero_();
      progress.ReadyFrom(0);
    } else {
      LOCKSTEP_RETURN_IF_ERROR(MakeGradients(shape, tensors, std::move(progress)));
    }
    if (!shape.has_update) {
      return OkStatus();
    }
    Number(&StepNumbers::length).copy_(LengthOfGradients());
    return device_->UpdateGuarded(spec_.optimizer, {tensors.words, numbers_}, state_);
  }

  Status MakeGradients(const StepShape& shape,
                       const StepTensors& tensors,
                       BackwardProgress progress) {
    const at::Tensor scales = tensors.words.view(at::kDouble);
    const at::Tensor seed_factor = scales.select(0, 0);
    at::Tensor inverse_scale;
    if (spec_.precision == Precision::kFloat16 && !shape.has_update) {
      inverse_scale = scales.select(0, 1);  // else the update takes it off
    }
    GradientIntake intake(std::move(progress), inverse_scale, gradient_slices_, offsets_);
    intake_ = &intake;
    const int64_t step_words = sizeof(GuardedStep) / sizeof(int64_t);
    const auto dropout_count = static_cast<int64_t>(network_.dropouts.size());
    const BatchLoss loss =
        LossOf(tensors, {true, tensors.words.narrow(0, step_words, dropout_count)});
    if (!leaves_.empty()) {
      (loss.loss_sum * seed_factor).backward();
    }
    intake_ = nullptr;
    for (at::Tensor& leaf : leaves_) {
      leaf.mutable_grad().reset();  // it has been taken
    }
    if (!intake.HasAll()) {
      return Error(ErrorCode::kInternal, "backward has not computed all gradients");
    }
    PutLoss(loss);
    if (intake.overflow().defined()) {
      Number(&StepNumbers::overflow).copy_(intake.overflow());
    }
    return OkStatus();
  }

  BatchLoss LossOf(const StepTensors& tensors, const PassOptions& options) {
    const at::Tensor outputs = network_.Forward(tensors.inputs, options);
    return RecordLoss(
        network_.loss, outputs.reshape({tensors.inputs.size(0), output_width_}), tensors.labels);
  }

  // float64 [], not finite where a gradient is not: a square of float32 is no infinity there.
  at::Tensor LengthOfGradients() const {
    return at::linalg_vector_norm(state_.gradients, 2, c10::nullopt, false, at::kDouble);
  }

  // float64 [] of numbers_.
  at::Tensor Number(double StepNumbers::*member) {
    const StepNumbers numbers;
    const auto* const begin = reinterpret_cast<const std::byte*>(&numbers);
    const auto* const at = reinterpret_cast<const std::byte*>(&(numbers.*member));
    return numbers_.view(at::kDouble).select(0, (at - begin) / int64_t{sizeof(double)});
  }

  void PutLoss(const BatchLoss& loss) {
    Number(&StepNumbers::loss_sum).copy_(loss.loss_sum.detach());
    Number(&StepNumbers::correct_count).copy_(loss.correct_count);
  }

  // The one wait for the device in a step.
  StepNumbers FetchNumbers() {
    StepNumbers numbers;
    device_->Fetch(numbers_, std::as_writable_bytes(std::span(&numbers, 1)));
    is_untaken_ = false;
    return numbers;
  }

  TrainingSpec spec_;
  std::unique_ptr<TorchDevice> device_;
  int64_t input_size_;  // of one sample
  int64_t output_width_;
  PinnedMemory pinned_;
  StepFeed feed_;
  std::unique_ptr<ParameterStore> store_;  // the host's image
  std::shared_ptr<void> lent_pin_;         // of gradients' memory that is lent
  DeviceState state_;
  at::Tensor numbers_;  // a StepNumbers on the device, as int64
  std::vector<std::vector<int64_t>> parameter_shapes_;
  std::vector<int64_t> offsets_;             // [parameters + 1], into the flat buffers
  std::vector<at::Tensor> leaves_;           // the parameters, over state_.parameters
  std::vector<at::Tensor> gradient_slices_;  // of each, over state_.gradients
  AutogradNetwork network_;
  GradientIntake* intake_ = nullptr;  // while backward runs
  bool is_untaken_ = false;           // the device may be at the last step still
  CapturePolicy captures_;
  std::unique_ptr<DeviceGraph> graph_;     // of what captures_ has captured
  std::optional<std::string> late_marks_;  // what people should hear of them, and have not yet
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
