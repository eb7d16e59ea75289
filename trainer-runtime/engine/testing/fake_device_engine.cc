#include "trainer-runtime/engine/testing/fake_device_engine.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "common/base/check.h"
#include "trainer-runtime/engine/guarded_step.h"

namespace lockstep::runtime {
namespace {

constexpr float kStale = std::numeric_limits<float>::quiet_NaN();

// Addresses that belong to nobody else and end whoever reads or writes there.
class BarredMemory {
 public:
  explicit BarredMemory(std::size_t size)
      : size_(std::max<std::size_t>(size, 1)),
        address_(::mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    LOCKSTEP_CHECK(address_ != MAP_FAILED, "no addresses left");
  }

  BarredMemory(const BarredMemory&) = delete;
  BarredMemory& operator=(const BarredMemory&) = delete;

  ~BarredMemory() { ::munmap(address_, size_); }

  void* address() const { return address_; }

 private:
  std::size_t size_;
  void* address_;
};

class FakeDeviceEngine final : public Engine {
 public:
  explicit FakeDeviceEngine(std::unique_ptr<Engine> inner)
      : inner_(std::move(inner)),
        own_gradients_(inner_->Gradients().size(), kStale),
        gradients_(own_gradients_),
        device_gradients_(inner_->Gradients().size_bytes()),
        device_sums_(kStepSumCount * sizeof(double)) {
    std::size_t value_count = 0;
    for (const TensorView& tensor : inner_->Tensors()) {
      value_count += tensor.data.size();
    }
    state_.assign(value_count, kStale);
  }

  std::string Description() const override { return "a double of a GPU: " + inner_->Description(); }

  std::vector<TensorView> Tensors() override {
    std::vector<TensorView> views = inner_->Tensors();
    std::span<float> rest = state_;
    for (TensorView& view : views) {
      const std::size_t size = view.data.size();
      view.data = rest.first(size);
      rest = rest.subspan(size);
    }
    return views;
  }

  std::span<float> Gradients() override { return gradients_; }

  EngineBuffer GradientBuffer() override {
    return {.address = device_gradients_.address(),
            .byte_count = gradients_.size_bytes(),
            .memory = MemoryKind::kCuda};
  }

  DeviceSums Sums() override {
    return {.numbers = {.address = device_sums_.address(),
                        .byte_count = kStepSumCount * sizeof(double),
                        .type = NumberType::kFloat64,
                        .memory = MemoryKind::kCuda},
            .after = nullptr};
  }

  Status Measure() override {
    step_.gradient_length = GradientLength();
    return OkStatus();
  }

  Result<StepResult> TakeStep() override { return std::exchange(step_, {}); }

  Status ScaleGradients(float factor) override {
    for (float& gradient : inner_->Gradients()) {
      gradient *= factor;
    }
    return OkStatus();
  }

  Status BringToHost(EnginePart part) override {
    if (part == EnginePart::kGradients) {
      std::ranges::copy(inner_->Gradients(), gradients_.begin());
      return OkStatus();
    }
    CopyTensors(inner_->Tensors(), Tensors());
    return OkStatus();
  }

  Status BringToDevice(EnginePart part) override {
    if (part == EnginePart::kGradients) {
      std::ranges::copy(gradients_, inner_->Gradients().begin());
      return OkStatus();
    }
    CopyTensors(Tensors(), inner_->Tensors());
    return OkStatus();
  }

  Status LendGradients(std::span<float> memory) override {
    if (memory.size() != gradients_.size()) {
      return Error(ErrorCode::kInvalidArgument, "memory of another size lent");
    }
    gradients_ = memory;
    own_gradients_ = std::vector<float>();
    return OkStatus();
  }

  Result<StepResult> ComputeGradients(const Batch& batch, const StepOptions& options) override {
    StepOptions inner_options = options;
    inner_options.update.reset();
    inner_options.is_awaited = true;
    Result<StepResult> result = inner_->ComputeGradients(batch, inner_options);
    std::ranges::fill(gradients_, kStale);
    if (result.ok() && options.update.has_value()) {
      LOCKSTEP_RETURN_IF_ERROR(UpdateGuarded(*options.update, &*result));
    }
    if (result.ok() && !options.is_awaited) {
      step_ = *result;
      return StepResult{};
    }
    return result;
  }

  Status ApplyUpdate(int64_t update_number) override {
    std::ranges::fill(state_, kStale);
    return inner_->ApplyUpdate(update_number);
  }

  Result<StepResult> Evaluate(const Batch& batch) override { return inner_->Evaluate(batch); }

  std::optional<std::string> TakeNotice() override { return std::exchange(notice_, std::nullopt); }

 private:
  double GradientLength() const {
    double squares = 0;
    for (const float gradient : inner_->Gradients()) {
      squares += static_cast<double>(gradient) * static_cast<double>(gradient);
    }
    return std::sqrt(squares);
  }

  // The scale is off these gradients already.
  Status UpdateGuarded(const GuardedUpdate& update, StepResult* result) {
    GuardedStep step;
    step.norm_max = update.norm_max.value_or(std::numeric_limits<double>::infinity());
    step.needs_finite = update.needs_finite ? 1 : 0;
    result->gradient_length = GradientLength();
    const UpdateVerdict verdict = Judge(step, result->loss_sum, result->gradient_length);
    result->is_updated = verdict.is_refused == 0 && result->overflow_count == 0;
    if (result->is_updated) {
      LOCKSTEP_RETURN_IF_ERROR(ScaleGradients(verdict.clip_factor));
      LOCKSTEP_RETURN_IF_ERROR(ApplyUpdate(update.number));
    }
    std::ranges::fill(inner_->Gradients(), kStale);
    return OkStatus();
  }

  static void CopyTensors(const std::vector<TensorView>& from, const std::vector<TensorView>& to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::ranges::copy(from[i].data, to[i].data.begin());
    }
  }

  std::unique_ptr<Engine> inner_;
  std::vector<float> state_;  // the image: all tensors, one after the other
  std::vector<float> own_gradients_;
  std::span<float> gradients_;  // the image
  BarredMemory device_gradients_;
  BarredMemory device_sums_;
  StepResult step_;  // that was not awaited
  std::optional<std::string> notice_ = "this is a double of a GPU";
};

}  // namespace

std::unique_ptr<Engine> MakeFakeDeviceEngine(std::unique_ptr<Engine> inner) {
  return std::make_unique<FakeDeviceEngine>(std::move(inner));
}

}  // namespace lockstep::runtime
