#pragma once

#include <c10/cuda/CUDAStream.h>

#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {

// Takes down what is put into `stream`, not CUDA's default one, as a CUDA graph. Its memory is the
// graph's own, from LibTorch's allocator, until the graph is gone.
Result<std::unique_ptr<DeviceGraph>> RecordCudaGraph(c10::cuda::CUDAStream stream,
                                                     const std::function<Status()>& work);

// Whether an event that a graph records counts as recorded from the graph's launch on: neither a
// query nor `other`, which is made to wait for it, takes the record before for it. CUDA's manual
// says "each launch of the graph will record", and not when a wait sees that. So it is tried, with
// a graph whose first node waits for the host; false where that cannot be done. Both streams are
// waited for. Takes some milliseconds.
bool CudaGraphMarksAtLaunch(c10::cuda::CUDAStream stream, c10::cuda::CUDAStream other);

}  // namespace lockstep::runtime
