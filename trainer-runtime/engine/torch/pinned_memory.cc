#include "trainer-runtime/engine/torch/pinned_memory.h"

#include <utility>

namespace lockstep::runtime {

HostFloats PinnedMemory::Allocate(std::size_t count) {
  if (device_->pinning() != nullptr && count > 0) {
    Result<HostFloats> pinned = device_->pinning()->Allocate(count);
    if (pinned.ok()) {
      return std::move(pinned).value();
    }
    NoteRefusal(pinned.error());
  }
  return OnHeap(count);
}

std::shared_ptr<void> PinnedMemory::Pin(std::span<float> memory) {
  if (device_->pinning() == nullptr || memory.empty()) {
    return nullptr;
  }
  Result<std::shared_ptr<void>> pinned = device_->pinning()->Pin(memory);
  if (pinned.ok()) {
    return std::move(pinned).value();
  }
  NoteRefusal(pinned.error());
  return nullptr;
}

std::optional<std::string> PinnedMemory::TakeNotice() {
  return std::exchange(notice_, std::nullopt);
}

void PinnedMemory::NoteRefusal(const Error& refusal) {
  if (!std::exchange(was_refused_, true)) {
    notice_ = "copies between the host and " + device_->Describe() +
              " use memory that is not pinned, which is slower: " + refusal.message();
  }
}

}  // namespace lockstep::runtime
