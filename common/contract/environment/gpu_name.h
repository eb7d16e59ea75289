#pragma once

#include <array>
#include <string>
#include <string_view>

namespace lockstep {

using GpuUuid = std::array<unsigned char, 16>;

// The name of a GPU that CUDA describes so, as NVML and the device plugin write it: "GPU-" and the
// bytes, or "MIG-" and the bytes of a slice. CUDA tells a slice by its product name alone ("NVIDIA
// H100 80GB HBM3 MIG 1g.10gb"). Source: cuDeviceGetUuid_v2 (the bytes are the slice's own),
// nvmlDeviceGetUUID since driver 470.
std::string FormatGpuName(const GpuUuid& bytes, std::string_view product);

// Whether both name one device, by the bytes: a slice that CUDA did not tell from a GPU is found.
bool IsSameGpu(std::string_view one, std::string_view other);

}  // namespace lockstep
