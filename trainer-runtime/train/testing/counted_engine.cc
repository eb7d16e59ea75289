#include "trainer-runtime/train/testing/counted_engine.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::runtime {
namespace {

class CountedEngine final : public Engine {
 public:
  CountedEngine(std::unique_ptr<Engine> inner, EngineCalls* calls)
      : inner_(std::move(inner)), calls_(calls) {}

  std::string Description() const override { return inner_->Description(); }

  std::vector<TensorView> Tensors() override { return inner_->Tensors(); }

  std::span<float> Gradients() override { return inner_->Gradients(); }

  EngineBuffer GradientBuffer() override { return inner_->GradientBuffer(); }

  DeviceSums Sums() override { return inner_->Sums(); }

  Status Measure() override { return inner_->Measure(); }

  Result<StepResult> TakeStep() override {
    ++calls_->waits;
    return inner_->TakeStep();
  }

  Status ScaleGradients(float factor) override { return inner_->ScaleGradients(factor); }

  Status BringToHost(EnginePart part) override {
    calls_->waits += part == EnginePart::kGradients ? 1 : 0;
    return inner_->BringToHost(part);
  }

  Status BringToDevice(EnginePart part) override { return inner_->BringToDevice(part); }

  Status LendGradients(std::span<float> memory) override { return inner_->LendGradients(memory); }

  Result<StepResult> ComputeGradients(const Batch& batch, const StepOptions& options) override {
    calls_->guarded += options.update.has_value() ? 1 : 0;
    calls_->prefetched += options.is_prefetched ? 1 : 0;
    calls_->waits += options.is_awaited && !options.update.has_value() ? 1 : 0;
    return inner_->ComputeGradients(batch, options);
  }

  Status ApplyUpdate(int64_t update_number) override {
    ++calls_->updates;
    return inner_->ApplyUpdate(update_number);
  }

  Result<StepResult> Evaluate(const Batch& batch) override { return inner_->Evaluate(batch); }

  std::optional<std::string> TakeNotice() override { return inner_->TakeNotice(); }

 private:
  std::unique_ptr<Engine> inner_;
  EngineCalls* calls_;
};

}  // namespace

std::unique_ptr<Engine> MakeCountedEngine(std::unique_ptr<Engine> inner, EngineCalls* calls) {
  return std::make_unique<CountedEngine>(std::move(inner), calls);
}

}  // namespace lockstep::runtime
