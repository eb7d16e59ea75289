#pragma once

#include <memory>

#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {

// What a test asks of a FakeTorchDevice, and what it has seen. Outlives it.
struct DeviceProbe {
  bool refuses_pinning = false;
  bool refuses_recording = false;

  int fetch_count = 0;        // waits
  int fetch_count_after = 0;  // of them, those in the second stream
  int is_after = 0;           // 1: the second stream is entered
  int update_count = 0;
  int guarded_count = 0;  // of guarded updates that were asked for, by the host or a graph
  int record_count = 0;
  int launch_count = 0;
  int pinned_count = 0;  // that are pinned now
};

// A device apart from the host that computes on the CPU, and that pins memory and takes down work
// as one with CUDA does: a graph does its work again at each launch, from what the device's memory
// has then.
std::unique_ptr<TorchDevice> MakeFakeTorchDevice(DeviceProbe* probe);

}  // namespace lockstep::runtime
