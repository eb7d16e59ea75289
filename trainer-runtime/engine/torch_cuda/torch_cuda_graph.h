#pragma once

#include <c10/cuda/CUDAStream.h>

#include "trainer-runtime/engine/torch/torch_device.h"

namespace lockstep::runtime {

// Takes down what is put into `stream`, not CUDA's default one, as a CUDA graph. Its memory is the
// graph's own, from LibTorch's allocator, until the graph is gone.
Result<std::unique_ptr<DeviceGraph>> RecordCudaGraph(c10::cuda::CUDAStream stream,
                                                     const std::function<Status()>& work);

}  // namespace lockstep::runtime
