#include <cstddef>

#include "trainer-runtime/engine/optimizer.h"
#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {
namespace {

std::span<float> View(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

class HostDevice final : public TorchDevice {
 public:
  explicit HostDevice(HostMemory memory) : is_shared_(memory == HostMemory::kShared) {}

  at::Device place() const override { return {at::kCPU}; }

  bool IsTheHostsMemory() const override { return is_shared_; }

  MemoryKind memory() const override { return is_shared_ ? MemoryKind::kHost : MemoryKind::kCuda; }

  void* stream() const override { return nullptr; }

  std::string Describe() const override { return "CPU"; }

  at::Tensor Upload(std::span<const float> values, at::IntArrayRef shape) override {
    // LibTorch has no tensor of constants; nothing writes to an input.
    const at::Tensor view = at::from_blob(const_cast<float*>(values.data()), shape, at::kFloat);
    return is_shared_ ? view : view.clone();
  }

  Status Update(const OptimizerSpec& optimizer,
                int64_t update_number,
                const DeviceState& state) override {
    ApplyOptimizer(optimizer,
                   update_number,
                   {.parameters = View(state.parameters),
                    .gradients = View(state.gradients),
                    .slots = View(state.slots)});
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
