#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {

UpdateBuffers BuffersOf(const DeviceState& state) {
  const int64_t count = state.parameters.numel();
  const int64_t slot_count = count == 0 ? 0 : state.slots.numel() / count;
  UpdateBuffers buffers;
  buffers.count = count;
  buffers.parameters = state.parameters.data_ptr<float>();
  buffers.gradients = state.gradients.data_ptr<float>();
  buffers.first_slot = slot_count > 0 ? state.slots.data_ptr<float>() : nullptr;
  buffers.second_slot = slot_count > 1 ? state.slots.data_ptr<float>() + count : nullptr;
  return buffers;
}

void TorchDevice::CopyBeside(const at::Tensor& to, const at::Tensor& from, std::size_t /*behind*/) {
  to.copy_(from);
}

void TorchDevice::Fetch(const at::Tensor& numbers, std::span<std::byte> bytes) {
  const auto byte_count = static_cast<int64_t>(bytes.size());
  at::from_blob(bytes.data(), {byte_count}, at::kByte)
      .copy_(numbers.reshape({-1}).view(
          at::kByte));  // LibTorch waits, as the host's end is a plain one
}

}  // namespace lockstep::runtime
