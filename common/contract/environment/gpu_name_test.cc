#include "common/contract/environment/gpu_name.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr GpuUuid kBytes = {
    0xa6, 0x5a, 0xfc, 0x88, 0x50, 0xb5, 0x5c, 0xcf, 0xb0, 0xa8, 0xf9, 0x3b, 0x32, 0x47, 0xae, 0x09};
constexpr const char* kSliceName = "MIG-a65afc88-50b5-5ccf-b0a8-f93b3247ae09";
constexpr const char* kWholeName = "GPU-a65afc88-50b5-5ccf-b0a8-f93b3247ae09";

TEST(GpuName, GpuAndSliceAreNamedAsNvmlNamesThem) {
  EXPECT_EQ(FormatGpuName(kBytes, "NVIDIA H100 80GB HBM3"), kWholeName);
  EXPECT_EQ(FormatGpuName(kBytes, "NVIDIA H100 80GB HBM3 MIG 1g.10gb"), kSliceName);
  EXPECT_EQ(FormatGpuName(kBytes, ""), kWholeName);
}

// A job names the slice as NVML does, and CUDA may say nothing of slices.
TEST(GpuName, SliceIsTheSameWhicheverWordCudaGivesIt) {
  EXPECT_TRUE(IsSameGpu(kSliceName, kSliceName));
  EXPECT_TRUE(IsSameGpu(kSliceName, kWholeName));
  EXPECT_FALSE(IsSameGpu(kSliceName, "MIG-a65afc88-50b5-5ccf-b0a8-f93b3247ae0a"));
  EXPECT_FALSE(IsSameGpu(kSliceName, ""));
  EXPECT_FALSE(IsSameGpu("GPU-", kWholeName));
}

}  // namespace
}  // namespace lockstep
