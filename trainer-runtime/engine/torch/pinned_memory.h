#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "trainer-runtime/engine/host_floats.h"
#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {

// The host's memory for one device: within its reach where that can be had, else plain, and then it
// says so once. The device outlives it. Thread: one.
class PinnedMemory {
 public:
  explicit PinnedMemory(TorchDevice* device) : device_(device) {}

  // New memory for so many.
  HostFloats Allocate(std::size_t count);

  // Memory that is there already, for as long as what is returned lives; null: it stays plain.
  std::shared_ptr<void> Pin(std::span<float> memory);

  // Why it is plain; once, then empty.
  std::optional<std::string> TakeNotice();

 private:
  void NoteRefusal(const Error& refusal);

  TorchDevice* device_;
  bool was_refused_ = false;
  std::optional<std::string> notice_;  // not yet told
};

}  // namespace lockstep::runtime
