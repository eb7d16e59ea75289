#include <cstddef>
#include <cstring>
#include <variant>

#include "trainer-runtime/engine/optimizer.h"
#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {
namespace {

std::span<float> FloatsOf(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

class HostDevice final : public TorchDevice {
 public:
  explicit HostDevice(HostMemory memory) : is_shared_(memory == HostMemory::kShared) {}

  at::Device place() const override { return {at::kCPU}; }

  bool IsTheHostsMemory() const override { return is_shared_; }

  MemoryKind memory() const override { return is_shared_ ? MemoryKind::kHost : MemoryKind::kCuda; }

  std::string Describe() const override { return "CPU"; }

  std::shared_ptr<void> Enter() override { return nullptr; }

  void* stream_after() const override { return nullptr; }

  std::shared_ptr<void> EnterAfter() override { return nullptr; }

  void* mark(std::size_t /*number*/) override { return nullptr; }

  void Mark(std::size_t /*number*/) override {}

  Status Update(const OptimizerSpec& optimizer,
                int64_t update_number,
                const DeviceState& state) override {
    ApplyOptimizer(optimizer,
                   update_number,
                   {.parameters = FloatsOf(state.parameters),
                    .gradients = FloatsOf(state.gradients),
                    .slots = FloatsOf(state.slots)});
    return OkStatus();
  }

  // What the kernels of a GPU do, by the same source.
  Status UpdateGuarded(const OptimizerSpec& optimizer,
                       const DeviceRecords& records,
                       const DeviceState& state) override {
    GuardedStep step;
    std::memcpy(&step, records.step.data_ptr(), sizeof(step));
    StepNumbers numbers;
    std::memcpy(&numbers, records.numbers.data_ptr(), sizeof(numbers));
    numbers.verdict = Judge(step, numbers.loss_sum, numbers.length);
    std::memcpy(records.numbers.data_ptr(), &numbers, sizeof(numbers));
    std::visit(
        [&](const auto& kind) {
          UpdateGuardedPart<1>(kind, step, numbers.verdict, BuffersOf(state), {0, 1});
        },
        MakeUpdateFactors(optimizer, /*update_number=*/1));
    return OkStatus();
  }

 private:
  bool is_shared_;
};

}  // namespace

std::unique_ptr<TorchDevice> MakeHostDevice(HostMemory memory) {
  return std::make_unique<HostDevice>(memory);
}

}  // namespace lockstep::runtime
