#pragma once

#include <memory>

#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {

// What a test asks of a FakeTorchDevice, and what it has seen. Outlives it.
struct DeviceProbe {
  bool refuses_pinning = false;
  bool refuses_recording = false;
  // What a graph marks counts once the device comes there: a wait finds what was marked before.
  bool marks_late = false;

  int fetch_count = 0;        // waits
  int fetch_count_after = 0;  // of them, those in the second stream
  int is_after = 0;           // 1: the second stream is entered
  int update_count = 0;
  int guarded_count = 0;  // of guarded updates that were asked for, by the host or a graph
  int record_count = 0;
  int graph_count = 0;  // that are kept now
  int launch_count = 0;
  int void_wait_count = 0;   // for marks that were not made since the last wait for them
  int pinned_count = 0;      // that are pinned now
  int copy_count = 0;        // beside what the device had been given
  int copy_fetch_count = 0;  // fetch_count at the last of them
  int hasty_copy_count = 0;  // of them, those before the host knew that the last one was done
};

// A device apart from the host that computes on the CPU, and that pins memory and takes down work
// as one with CUDA does: a graph does its work again at each launch, from what the device's memory
// has then, and no more of it than somebody waits for. It stands at each mark until a later one is
// waited for, or the engine asks the device for something else.
std::unique_ptr<TorchDevice> MakeFakeTorchDevice(DeviceProbe* probe);

// What a stream does that is made to wait for `made`, an event of such a device: returns when the
// device has come there.
void AwaitFakeEvent(void* made);

}  // namespace lockstep::runtime
