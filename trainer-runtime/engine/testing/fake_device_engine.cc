#include "trainer-runtime/engine/testing/fake_device_engine.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
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

// The values are elsewhere, and at once.
class BarredGradients final : public FakeDeviceGradients {
 public:
  explicit BarredGradients(std::size_t count)
      : values_(count, kStale),
        barred_(count * sizeof(float)),
        barred_sums_(kStepSumCount * sizeof(double)) {}

  std::string DeviceName() const override { return "a GPU"; }

  EngineBuffer Buffer() const override {
    return {.address = barred_.address(),
            .byte_count = values_.size() * sizeof(float),
            .memory = MemoryKind::kCuda};
  }

  void Write(std::size_t offset, std::span<const float> made) override {
    std::ranges::copy(made, values_.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  // Nobody can wait for it, nor has to.
  void* Mark(std::size_t number) override {
    return static_cast<std::byte*>(barred_.address()) + number;
  }

  std::span<float> Await() override { return values_; }

  DeviceSums Sums() const override {
    return {.numbers = {.address = barred_sums_.address(),
                        .byte_count = kStepSumCount * sizeof(double),
                        .type = NumberType::kFloat64,
                        .memory = MemoryKind::kCuda},
            .after = nullptr};
  }

  void WriteSums(const StepResult& made) override { step_ = made; }

  void Measure() override { step_.gradient_length = LengthOf(values_); }

  StepResult TakeStep() override { return std::exchange(step_, {}); }

 private:
  std::vector<float> values_;
  BarredMemory barred_;
  BarredMemory barred_sums_;
  StepResult step_;
};

// A batch that came ahead of its step, as it was then.
class BatchCopy {
 public:
  explicit BatchCopy(const Batch& batch)
      : inputs_(batch.inputs.begin(), batch.inputs.end()),
        labels_(batch.labels.begin(), batch.labels.end()) {}

  bool IsEqual(const Batch& batch) const {
    return std::ranges::equal(inputs_, batch.inputs) && std::ranges::equal(labels_, batch.labels);
  }

 private:
  std::vector<float> inputs_;
  std::vector<float> labels_;
};

class FakeDeviceEngine final : public Engine {
 public:
  FakeDeviceEngine(std::unique_ptr<Engine> inner,
                   std::unique_ptr<FakeDeviceGradients> gradients,
                   FakeTelling telling)
      : inner_(std::move(inner)),
        gradients_(std::move(gradients)),
        telling_(telling),
        own_image_(inner_->Gradients().size(), kStale),
        image_(own_image_) {
    std::size_t value_count = 0;
    for (const TensorView& tensor : inner_->Tensors()) {
      value_count += tensor.data.size();
    }
    state_.assign(value_count, kStale);
    notice_ = "this is a double of " + gradients_->DeviceName();
  }

  std::string Description() const override {
    return "a double of " + gradients_->DeviceName() + ": " + inner_->Description();
  }

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

  std::span<float> Gradients() override { return image_; }

  EngineBuffer GradientBuffer() override { return gradients_->Buffer(); }

  DeviceSums Sums() override { return gradients_->Sums(); }

  Status Measure() override {
    gradients_->Measure();
    return OkStatus();
  }

  Result<StepResult> TakeStep() override { return gradients_->TakeStep(); }

  Status ScaleGradients(float factor) override {
    for (float& gradient : gradients_->Await()) {
      gradient *= factor;
    }
    return OkStatus();
  }

  Status BringToHost(EnginePart part) override {
    if (part == EnginePart::kGradients) {
      std::ranges::copy(gradients_->Await(), image_.begin());
      return OkStatus();
    }
    CopyTensors(inner_->Tensors(), Tensors());
    return OkStatus();
  }

  Status BringToDevice(EnginePart part) override {
    if (part == EnginePart::kGradients) {
      std::ranges::copy(image_, gradients_->Await().begin());
      return OkStatus();
    }
    CopyTensors(Tensors(), inner_->Tensors());
    return OkStatus();
  }

  Status LendGradients(std::span<float> memory) override {
    if (memory.size() != image_.size()) {
      return Error(ErrorCode::kInvalidArgument, "memory of another size lent");
    }
    image_ = memory;
    own_image_ = std::vector<float>();
    return OkStatus();
  }

  Result<StepResult> ComputeGradients(const Batch& batch, const StepOptions& options) override {
    if (options.is_prefetched) {
      LOCKSTEP_CHECK(ahead_.has_value() && ahead_->IsEqual(batch), "another batch than came ahead");
    }
    ahead_.reset();
    std::ranges::fill(gradients_->Await(), kStale);
    std::ranges::fill(image_, kStale);
    StepOptions own = options;
    own.update.reset();
    own.is_awaited = true;
    std::vector<std::function<void()>> later;
    std::size_t mark = 0;
    own.on_ready = [&](int64_t offset, int64_t count, void* /*made*/) {
      const auto begin = static_cast<std::size_t>(offset);
      gradients_->Write(begin, inner_->Gradients().subspan(begin, static_cast<std::size_t>(count)));
      if (!options.on_ready) {
        return;
      }
      void* const made = gradients_->Mark(mark++);
      later.emplace_back(
          [&options, offset, count, made] { options.on_ready(offset, count, made); });
      if (telling_ == FakeTelling::kAsTheyAreMade) {
        later.back()();
      }
    };
    Result<StepResult> result = inner_->ComputeGradients(batch, own);
    if (result.ok() && options.update.has_value()) {
      LOCKSTEP_RETURN_IF_ERROR(UpdateGuarded(*options.update, &*result));
    }
    if (result.ok() && !options.is_awaited) {
      gradients_->WriteSums(*result);
      *result = StepResult{};
    }
    if (result.ok() && telling_ == FakeTelling::kAtOnce) {
      std::ranges::for_each(later, [](const auto& tell) { tell(); });
    }
    if (result.ok() && options.next) {
      const std::optional<Batch> next = options.next();
      ahead_ = next.has_value() ? std::optional<BatchCopy>(*next) : std::nullopt;
    }
    return result;
  }

  Status ApplyUpdate(int64_t update_number) override {
    std::ranges::copy(gradients_->Await(), inner_->Gradients().begin());
    std::ranges::fill(state_, kStale);
    return inner_->ApplyUpdate(update_number);
  }

  Result<StepResult> Evaluate(const Batch& batch) override { return inner_->Evaluate(batch); }

  std::optional<std::string> TakeNotice() override { return std::exchange(notice_, std::nullopt); }

 private:
  // The scale is off these gradients already.
  Status UpdateGuarded(const GuardedUpdate& update, StepResult* result) {
    GuardedStep step;
    step.norm_max = update.norm_max.value_or(std::numeric_limits<double>::infinity());
    step.needs_finite = update.needs_finite ? 1 : 0;
    result->gradient_length = LengthOf(gradients_->Await());
    const UpdateVerdict verdict = Judge(step, result->loss_sum, result->gradient_length);
    result->is_updated = verdict.is_refused == 0 && result->overflow_count == 0;
    if (result->is_updated) {
      LOCKSTEP_RETURN_IF_ERROR(ScaleGradients(verdict.clip_factor));
      LOCKSTEP_RETURN_IF_ERROR(ApplyUpdate(update.number));
    }
    std::ranges::fill(gradients_->Await(), kStale);
    return OkStatus();
  }

  static void CopyTensors(const std::vector<TensorView>& from, const std::vector<TensorView>& to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::ranges::copy(from[i].data, to[i].data.begin());
    }
  }

  std::unique_ptr<Engine> inner_;
  std::unique_ptr<FakeDeviceGradients> gradients_;
  FakeTelling telling_;
  std::vector<float> state_;  // the image: all tensors, one after the other
  std::vector<float> own_image_;
  std::span<float> image_;  // of the gradients
  std::optional<BatchCopy> ahead_;
  std::optional<std::string> notice_;
};

}  // namespace

double LengthOf(std::span<const float> gradients) {
  double squares = 0;
  for (const float gradient : gradients) {
    squares += static_cast<double>(gradient) * static_cast<double>(gradient);
  }
  return std::sqrt(squares);
}

std::unique_ptr<Engine> MakeFakeDeviceEngine(std::unique_ptr<Engine> inner,
                                             std::unique_ptr<FakeDeviceGradients> gradients,
                                             FakeTelling telling) {
  if (gradients == nullptr) {
    gradients = std::make_unique<BarredGradients>(inner->Gradients().size());
  }
  return std::make_unique<FakeDeviceEngine>(std::move(inner), std::move(gradients), telling);
}

}  // namespace lockstep::runtime
