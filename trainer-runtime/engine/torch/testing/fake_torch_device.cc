#include "trainer-runtime/engine/torch/testing/fake_torch_device.h"

#include <utility>

namespace lockstep::runtime {
namespace {

class FakeGraph final : public DeviceGraph {
 public:
  FakeGraph(DeviceProbe* probe, std::function<Status()> work)
      : probe_(probe), work_(std::move(work)) {}

  Status Launch() override {
    ++probe_->launch_count;
    return work_();
  }

 private:
  DeviceProbe* probe_;
  std::function<Status()> work_;
};

class FakeTorchDevice final : public TorchDevice, HostPinning, GraphRecorder {
 public:
  explicit FakeTorchDevice(DeviceProbe* probe)
      : probe_(probe), host_(MakeHostDevice(HostMemory::kApart)) {}

  at::Device place() const override { return host_->place(); }

  bool IsTheHostsMemory() const override { return false; }

  MemoryKind memory() const override { return host_->memory(); }

  void* stream() const override { return nullptr; }

  std::string Describe() const override { return "a double"; }

  std::shared_ptr<void> Enter() override { return nullptr; }

  void* stream_after() const override { return probe_; }

  std::shared_ptr<void> EnterAfter() override {
    ++probe_->is_after;
    return {probe_, [](DeviceProbe* probe) { --probe->is_after; }};
  }

  Status Update(const OptimizerSpec& optimizer,
                int64_t update_number,
                const DeviceState& state) override {
    ++probe_->update_count;
    return host_->Update(optimizer, update_number, state);
  }

  Status UpdateGuarded(const OptimizerSpec& optimizer,
                       const DeviceRecords& records,
                       const DeviceState& state) override {
    ++probe_->guarded_count;
    return host_->UpdateGuarded(optimizer, records, state);
  }

  void Fetch(const at::Tensor& numbers, std::span<std::byte> bytes) override {
    ++probe_->fetch_count;
    probe_->fetch_count_after += probe_->is_after;
    host_->Fetch(numbers, bytes);
  }

  HostPinning* pinning() override { return this; }

  GraphRecorder* recorder() override { return this; }

 private:
  Result<HostFloats> Allocate(std::size_t count) override {
    if (probe_->refuses_pinning) {
      return Error(ErrorCode::kResourceExhausted, "no more than 64 KiB may be locked");
    }
    ++probe_->pinned_count;
    const std::shared_ptr<float[]> memory = OnHeap(count);
    return HostFloats(memory.get(), [probe = probe_, memory](const float*) {
      --probe->pinned_count;  // the memory goes with this call
    });
  }

  Result<std::shared_ptr<void>> Pin(std::span<float> memory) override {
    if (probe_->refuses_pinning) {
      return Error(ErrorCode::kResourceExhausted, "no more than 64 KiB may be locked");
    }
    ++probe_->pinned_count;
    return std::shared_ptr<void>(memory.data(),
                                 [probe = probe_](const void*) { --probe->pinned_count; });
  }

  Result<std::unique_ptr<DeviceGraph>> Record(const std::function<Status()>& work) override {
    ++probe_->record_count;
    if (probe_->refuses_recording) {
      return Error(ErrorCode::kInternal, "operation not permitted when stream is capturing");
    }
    return std::unique_ptr<DeviceGraph>(std::make_unique<FakeGraph>(probe_, work));
  }

  DeviceProbe* probe_;
  std::unique_ptr<TorchDevice> host_;
};

}  // namespace

std::unique_ptr<TorchDevice> MakeFakeTorchDevice(DeviceProbe* probe) {
  return std::make_unique<FakeTorchDevice>(probe);
}

}  // namespace lockstep::runtime
