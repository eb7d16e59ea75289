#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/testing_world.h"

namespace lockstep::runtime {
namespace {

class FillTest : public testing::TestWithParam<Backend> {};

INSTANTIATE_TEST_SUITE_P(Backends,
                         FillTest,
                         testing::Values(Backend::kSharedMemory,
                                         Backend::kTcp,
                                         Backend::kHierarchical),
                         [](const auto& test) { return BackendText(test.param); });

constexpr uint8_t kUnlike = 200;

std::vector<uint8_t> RootsBytes(std::size_t size) {
  std::vector<uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<uint8_t>((i * 7 + i / 251) % kUnlike);
  }
  return bytes;
}

TEST_P(FillTest, RanksThatLackTheBytesGetThem) {
  constexpr int kWorldSize = 5;
  RunThreads(kWorldSize, GetParam(), [](Communicator& communicator) {
    for (const std::size_t size : {0, 1, 70'000, 3'000'001}) {
      const std::vector<uint8_t> roots_bytes = RootsBytes(size);
      for (unsigned holders = 0; holders < 1U << kWorldSize; ++holders) {
        const int root = static_cast<int>(holders * 3 % kWorldSize);
        const bool holds = (holders >> communicator.rank() & 1) != 0;
        std::vector<uint8_t> data = roots_bytes;
        if (!holds && communicator.rank() != root) {
          std::fill(data.begin(), data.end(), kUnlike);
        }
        const Status status = communicator.Fill(data.data(), size, root, holds, Soon());
        ASSERT_TRUE(status.ok()) << status.error().ToString();
        ASSERT_EQ(data, roots_bytes) << "root " << root << ", holders " << holders;
      }
    }
  });
}

// Whether anything was sent to a rank shows where it says that it holds what it does not.
TEST_P(FillTest, NothingIsWrittenWhereTheBytesAreHeld) {
  for (const int world_size : {2, 5}) {
    RunThreads(world_size, GetParam(), [world_size](Communicator& communicator) {
      const bool holds = communicator.rank() != 0;
      const std::size_t size = 1'000'000;
      std::vector<uint8_t> data(size, holds ? kUnlike : 0);
      const int root = world_size - 1;
      ASSERT_TRUE(communicator.Fill(data.data(), size, root, holds, Soon()).ok());
      const std::vector<uint8_t> all_unlike(size, kUnlike);
      ASSERT_EQ(data, all_unlike);
      std::vector<uint8_t> own(size, static_cast<uint8_t>(communicator.rank()));
      ASSERT_TRUE(communicator.Fill(own.data(), size, root, true, Soon()).ok());
      ASSERT_TRUE(std::all_of(
          own.begin(), own.end(), [&](uint8_t byte) { return byte == communicator.rank(); }));
    });
  }
}

// Who holds the bytes goes on at once, and its next calls meet those of the others.
TEST_P(FillTest, CallsAfterItKeepInStep) {
  RunThreads(3, GetParam(), [](Communicator& communicator) {
    for (int round = 0; round < 40; ++round) {
      const std::size_t size = static_cast<std::size_t>(round) * 100'003;
      const int lacking = round % 3;
      const bool holds = communicator.rank() != lacking;
      std::vector<uint8_t> data(size, holds ? 9 : 0);
      ASSERT_TRUE(communicator.Fill(data.data(), size, (lacking + 1) % 3, holds, Soon()).ok());
      ASSERT_TRUE(std::all_of(data.begin(), data.end(), [](uint8_t x) { return x == 9; }));
      std::vector<int32_t> sums(300'000, 1);
      ASSERT_TRUE(
          communicator.AllReduce(sums.data(), sums.size(), DataType::kInt32, ReduceOp::kSum, Soon())
              .ok());
      ASSERT_TRUE(std::all_of(sums.begin(), sums.end(), [](int32_t x) { return x == 3; }));
    }
  });
}

}  // namespace
}  // namespace lockstep::runtime
