#include "trainer-runtime/capi/memory_check.h"

#include <array>
#include <limits>

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace lockstep::runtime {
namespace {

TEST(CheckMemory, OrdinaryMemoryIsFine) {
  std::array<float, 8> data{};
  EXPECT_TRUE(CheckMemory({"data", data.data(), 4, DataType::kFloat32, 2}).ok());
}

TEST(CheckMemory, NothingNeedsNoMemory) {
  EXPECT_TRUE(CheckMemory({"data", nullptr, 0, DataType::kFloat32, 3}).ok());
}

TEST(CheckMemory, WhatIsWrongIsSaid) {
  std::array<double, 2> data{};
  const auto sentence = [](const CallMemory& memory) {
    const Status status = CheckMemory(memory);
    EXPECT_FALSE(status.ok());
    return status.ok() ? "" : status.error().message();
  };
  EXPECT_EQ(sentence({"input", nullptr, 1, DataType::kUInt8, 1}), "input is null");
  const auto* const odd = reinterpret_cast<const std::byte*>(data.data()) + 2;
  EXPECT_EQ(sentence({"data", odd, 1, DataType::kFloat64, 1}),
            "data is not aligned to the 8 bytes of float64");
  constexpr uint64_t kMany = std::numeric_limits<uint64_t>::max();
  EXPECT_NE(sentence({"data", data.data(), kMany, DataType::kUInt8, 1}).find("count"),
            std::string::npos);
  EXPECT_NE(sentence({"data", data.data(), kMany / 4, DataType::kFloat32, 5}).find("count"),
            std::string::npos);
}

// As the driver of a GPU reserves it: there is such an address, and nothing to read.
TEST(CheckMemory, MemoryThatTheCpuCannotReadIsRefused) {
  constexpr std::size_t kBytes = 1 << 16;
  void* const reserved = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(reserved, MAP_FAILED);
  const Status status = CheckMemory({"data", reserved, kBytes, DataType::kUInt8, 1});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(status.error().message().find("GPU memory"), std::string::npos);
  ::munmap(reserved, kBytes);
}

}  // namespace
}  // namespace lockstep::runtime
