#include "trainer-runtime/collectives/communicator/communicator.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/io/file.h"
#include "trainer-runtime/collectives/shared_memory/shared_memory_layout.h"
#include "trainer-runtime/collectives/testing_world.h"

namespace lockstep::runtime {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;

class CommunicatorTest : public testing::TestWithParam<Backend> {};

INSTANTIATE_TEST_SUITE_P(Backends,
                         CommunicatorTest,
                         testing::Values(Backend::kSharedMemory,
                                         Backend::kTcp,
                                         Backend::kHierarchical),
                         [](const auto& test) { return BackendText(test.param); });

// --- Right results ---

int64_t Input(int rank, std::size_t i) {
  return static_cast<int64_t>((i * 7 + static_cast<std::size_t>(rank) * 13) % 50);
}

int64_t Expected(ReduceOp op, int world_size, std::size_t i) {
  int64_t result = Input(0, i);
  for (int rank = 1; rank < world_size; ++rank) {
    const int64_t value = Input(rank, i);
    result = op == ReduceOp::kSum   ? result + value
             : op == ReduceOp::kMin ? std::min(result, value)
                                    : std::max(result, value);
  }
  return result;
}

template <typename T>
void CheckAllReduce(Communicator& communicator, DataType type, ReduceOp op, std::size_t count) {
  std::vector<T> data(count);
  for (std::size_t i = 0; i < count; ++i) {
    data[i] = static_cast<T>(Input(communicator.rank(), i));
  }
  const Status status = communicator.AllReduce(data.data(), count, type, op, Soon());
  ASSERT_TRUE(status.ok()) << status.error().ToString();
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(data[i], static_cast<T>(Expected(op, communicator.world_size(), i)))
        << communicator.BackendName() << ", rank " << communicator.rank() << " of "
        << communicator.world_size() << ", " << DataTypeName(type) << " " << ReduceOpName(op)
        << ", count " << count << ", element " << i;
  }
}

// Byte counts at which the backends change their way, for this world.
std::vector<std::size_t> InterestingBytes(int world_size) {
  const auto world = static_cast<std::size_t>(world_size);
  const std::size_t small = SharedMemoryLayout::SmallBytesMax(world_size);
  const std::size_t chunk = SharedMemoryLayout::ChunkBytes(world_size);
  constexpr std::size_t kTcpChunk = 128 * 1024;
  return {16,
          64,
          4096,
          small,
          256 * 1024 / world,
          chunk,
          3 * chunk,
          4 * chunk + 64,
          kTcpChunk * world,
          3 * kTcpChunk * world};
}

TEST_P(CommunicatorTest, AllReduceGivesTheResultAtEverySizeAroundAChangeOfWays) {
  for (int world_size = 1; world_size <= 5; ++world_size) {
    RunThreads(world_size, GetParam(), [&](Communicator& communicator) {
      for (const std::size_t bytes : InterestingBytes(world_size)) {
        const std::size_t count = bytes / sizeof(float);
        for (const std::size_t exact : {count - 1, count, count + 1}) {
          CheckAllReduce<float>(communicator, DataType::kFloat32, ReduceOp::kSum, exact);
        }
      }
    });
  }
}

TEST_P(CommunicatorTest, AllReduceGivesTheResultForEveryTypeAndOperation) {
  for (int world_size = 1; world_size <= 5; ++world_size) {
    RunThreads(world_size, GetParam(), [](Communicator& communicator) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}) {
        for (const std::size_t count : {0, 1, 5, 1027, 200'003}) {
          CheckAllReduce<uint8_t>(communicator, DataType::kUInt8, op, count);
          CheckAllReduce<int32_t>(communicator, DataType::kInt32, op, count);
          CheckAllReduce<int64_t>(communicator, DataType::kInt64, op, count);
          CheckAllReduce<float>(communicator, DataType::kFloat32, op, count);
          CheckAllReduce<double>(communicator, DataType::kFloat64, op, count);
        }
      }
    });
  }
}

TEST_P(CommunicatorTest, NanOfAnyRankIsTheMinimumAndTheMaximum) {
  for (int world_size = 2; world_size <= 4; ++world_size) {
    RunThreads(world_size, GetParam(), [&](Communicator& communicator) {
      for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
        for (int place = 0; place < world_size; ++place) {
          std::vector<float> data(7, communicator.rank() == place ? std::nanf("") : 1.0F);
          ASSERT_TRUE(
              communicator.AllReduce(data.data(), data.size(), DataType::kFloat32, op, Soon())
                  .ok());
          ASSERT_TRUE(std::all_of(data.begin(), data.end(), [](float x) { return std::isnan(x); }))
              << ReduceOpName(op) << ", NaN on rank " << place << " of " << world_size;
        }
      }
    });
  }
}

TEST_P(CommunicatorTest, BroadcastCopiesTheRootsBytesToAll) {
  for (int world_size = 1; world_size <= 4; ++world_size) {
    RunThreads(world_size, GetParam(), [&](Communicator& communicator) {
      for (int root = 0; root < world_size; ++root) {
        for (const std::size_t size : {0, 1, 4095, 600'001, 5'000'000}) {
          std::vector<uint8_t> data(size, static_cast<uint8_t>(communicator.rank()));
          if (communicator.rank() == root) {
            std::iota(data.begin(), data.end(), uint8_t{7});
          }
          const Status status = communicator.Broadcast(data.data(), size, root, Soon());
          ASSERT_TRUE(status.ok()) << status.error().ToString();
          for (std::size_t i = 0; i < size; ++i) {
            ASSERT_EQ(data[i], static_cast<uint8_t>(i + 7)) << "root " << root << ", byte " << i;
          }
        }
      }
    });
  }
}

TEST_P(CommunicatorTest, BarrierLetsNobodyPassBeforeAllHaveCome) {
  std::atomic<int> arrived = 0;
  RunThreads(3, GetParam(), [&](Communicator& communicator) {
    for (int round = 1; round <= 200; ++round) {
      ++arrived;
      ASSERT_TRUE(communicator.Barrier(Soon()).ok());
      ASSERT_GE(arrived.load(), 3 * round);
    }
  });
}

TEST_P(CommunicatorTest, MixedCallsOfMixedSizesKeepInStep) {
  RunThreads(3, GetParam(), [](Communicator& communicator) {
    for (std::size_t round = 0; round < 60; ++round) {
      const std::size_t count = round * round * 251 % 400'000;
      CheckAllReduce<int32_t>(communicator, DataType::kInt32, ReduceOp::kSum, count);
      CheckAllReduce<int32_t>(communicator, DataType::kInt32, ReduceOp::kMax, 1);
      std::vector<int32_t> data(count, communicator.rank());
      const int root = static_cast<int>(round % 3);
      ASSERT_TRUE(communicator.Broadcast(data.data(), 4 * count, root, Soon()).ok());
      ASSERT_TRUE(std::all_of(data.begin(), data.end(), [&](int32_t x) { return x == root; }));
      ASSERT_TRUE(communicator.Barrier(Soon()).ok());
    }
  });
}

// --- Bitwise equality ---

// Floats of very different size, whose sum depends on the order of additions.
std::vector<float> RoughFloats(int rank, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto exponent = static_cast<float>((i * 31 + static_cast<std::size_t>(rank) * 17) % 40);
    data[i] = std::sin(static_cast<float>(i + 1) * static_cast<float>(rank + 2)) *
              std::exp2(exponent - 20.0F);
  }
  return data;
}

TEST(Communicator, FloatSumsAreBitwiseThoseOfRankOrderOnEveryRankAndBackend) {
  for (int world_size = 2; world_size <= 5; ++world_size) {
    for (const std::size_t count : {3, 5'000, 70'000, 700'001}) {
      std::vector<float> expected = RoughFloats(0, count);
      for (int rank = 1; rank < world_size; ++rank) {
        const std::vector<float> addend = RoughFloats(rank, count);
        for (std::size_t i = 0; i < count; ++i) {
          expected[i] += addend[i];
        }
      }
      for (const Backend backend : {Backend::kSharedMemory, Backend::kTcp}) {
        RunThreads(world_size, backend, [&](Communicator& communicator) {
          std::vector<float> data = RoughFloats(communicator.rank(), count);
          const Status status = communicator.AllReduce(
              data.data(), count, DataType::kFloat32, ReduceOp::kSum, Soon());
          ASSERT_TRUE(status.ok()) << status.error().ToString();
          ASSERT_EQ(0, std::memcmp(data.data(), expected.data(), count * sizeof(float)))
              << communicator.BackendName() << ", world " << world_size << ", count " << count;
        });
      }
    }
  }
}

// Within hosts in rank order, then over the hosts: the same bits on every rank.
TEST(Communicator, FloatSumsOfSeveralHostsAreBitwiseThoseOfHostOrderOnEveryRank) {
  for (const std::size_t count : {3, 5'000, 700'001}) {
    const std::vector<float> own[] = {RoughFloats(0, count),
                                      RoughFloats(1, count),
                                      RoughFloats(2, count),
                                      RoughFloats(3, count),
                                      RoughFloats(4, count)};
    std::vector<float> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      expected[i] = (own[0][i] + (own[1][i] + own[2][i])) + (own[3][i] + own[4][i]);
    }
    RunThreads(5, Backend::kHierarchical, [&](Communicator& communicator) {
      ASSERT_STREQ(communicator.BackendName(), "hierarchical");
      std::vector<float> data = own[communicator.rank()];
      const Status status =
          communicator.AllReduce(data.data(), count, DataType::kFloat32, ReduceOp::kSum, Soon());
      ASSERT_TRUE(status.ok()) << status.error().ToString();
      ASSERT_EQ(0, std::memcmp(data.data(), expected.data(), count * sizeof(float))) << count;
    });
  }
}

// --- Joining ---

TEST(Communicator, BackendIsTheOneAskedFor) {
  RunThreads(2, Backend::kSharedMemory, [](Communicator& communicator) {
    EXPECT_STREQ(communicator.BackendName(), "shared-memory");
  });
  RunThreads(2, Backend::kTcp, [](Communicator& communicator) {
    EXPECT_STREQ(communicator.BackendName(), "tcp");
  });
  RunThreads(1, Backend::kTcp, [](Communicator& communicator) {
    EXPECT_STREQ(communicator.BackendName(), "alone");
  });
}

// Makes the communicators of a world whose options `change` has altered, one thread a rank.
std::vector<Result<std::unique_ptr<Communicator>>> Join(
    int world_size, const std::function<void(CommunicatorOptions&)>& change) {
  LinkMatrix links = MakeLinks(world_size);
  std::vector<Result<std::unique_ptr<Communicator>>> joined;
  for (int rank = 0; rank < world_size; ++rank) {
    joined.emplace_back(Error(ErrorCode::kInternal, "not joined"));
  }
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    CommunicatorOptions options = OptionsOf(rank, Backend::kSharedMemory, links);
    change(options);
    threads.emplace_back(
        [&slot = joined[static_cast<std::size_t>(rank)], options = std::move(options)]() mutable {
          slot = MakeCommunicator(std::move(options), Soon());
        });
  }
  threads.clear();
  return joined;
}

TEST(MakeCommunicator, OneRankOnAnotherHostMeansSharedMemoryWithinAndTcpBetween) {
  const auto joined = Join(3, [](CommunicatorOptions& options) {
    options.host_ids = {"a", "a", "b"};
  });
  for (const auto& communicator : joined) {
    ASSERT_TRUE(communicator.ok()) << communicator.error().ToString();
    EXPECT_STREQ(communicator.value()->BackendName(), "hierarchical");
  }
}

TEST(MakeCommunicator, RankThatForbidsSharingIsAHostOfItsOwn) {
  const auto joined = Join(
      3, [](CommunicatorOptions& options) { options.allow_shared_memory = options.rank != 1; });
  for (const auto& communicator : joined) {
    ASSERT_TRUE(communicator.ok()) << communicator.error().ToString();
    EXPECT_STREQ(communicator.value()->BackendName(), "hierarchical");
  }
}

TEST(MakeCommunicator, NoTwoRanksOnOneHostMeanTcpForAll) {
  const auto joined = Join(3, [](CommunicatorOptions& options) {
    options.host_ids = {"a", "b", "c"};
  });
  for (const auto& communicator : joined) {
    ASSERT_TRUE(communicator.ok()) << communicator.error().ToString();
    EXPECT_STREQ(communicator.value()->BackendName(), "tcp");
  }
}

TEST(MakeCommunicator, DifferentPlanEpochOrWorldIsAMismatchOnEveryRank) {
  const std::vector<std::pair<std::string, std::function<void(CommunicatorOptions&)>>> cases = {
      {"plan hash", [](CommunicatorOptions& o) { o.plan_hash = o.rank == 2 ? 43 : 42; }},
      {"epoch", [](CommunicatorOptions& o) { o.epoch = Epoch(o.rank == 2 ? 4 : 3); }},
  };
  for (const auto& [what, change] : cases) {
    const auto joined = Join(3, change);
    for (const auto& communicator : joined) {
      ASSERT_FALSE(communicator.ok());
      EXPECT_EQ(communicator.error().code(), ErrorCode::kMismatch);
      const std::string text = communicator.error().ToString();
      EXPECT_THAT(text, HasSubstr(what));
      EXPECT_THAT(text, HasSubstr("rank 2 has 4"));
    }
  }
}

TEST(MakeCommunicator, OptionsThatCannotBeRightAreRefusedAtOnce) {
  const std::vector<std::function<void(CommunicatorOptions&)>> cases = {
      [](CommunicatorOptions& o) { o.rank = 2; },
      [](CommunicatorOptions& o) { o.rank = -1; },
      [](CommunicatorOptions& o) { o.world_size = 0; },
      [](CommunicatorOptions& o) { o.world_size = kWorldSizeMax + 1; },
      [](CommunicatorOptions& o) { o.links.pop_back(); },
      [](CommunicatorOptions& o) { o.links[1].Reset(); },
      [](CommunicatorOptions& o) { o.host_ids.pop_back(); },
  };
  for (const auto& change : cases) {
    LinkMatrix links = MakeLinks(2);
    CommunicatorOptions options = OptionsOf(0, Backend::kTcp, links);
    change(options);
    const auto communicator = MakeCommunicator(std::move(options), Soon());
    ASSERT_FALSE(communicator.ok());
    EXPECT_EQ(communicator.error().code(), ErrorCode::kInvalidArgument);
  }
}

TEST(MakeCommunicator, ARankThatNeverComesIsATimeoutNamingIt) {
  LinkMatrix links = MakeLinks(2);
  const auto communicator =
      MakeCommunicator(OptionsOf(0, Backend::kSharedMemory, links),
                       Deadline::After(SteadyNow(), std::chrono::milliseconds(20)));
  ASSERT_FALSE(communicator.ok());
  EXPECT_EQ(communicator.error().code(), ErrorCode::kTimeout);
  EXPECT_THAT(communicator.error().ToString(), HasSubstr("with rank 1"));
}

// --- Leftovers ---

std::size_t OpenDescriptors() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return std::distance(begin(descriptors), end(descriptors));
}

// Names of segments in shared memory, which are files. (Folders there are scratch space.)
std::vector<std::string> SharedSegments() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (!entry.is_directory()) {
      names.push_back(entry.path().filename());
    }
  }
  return names;
}

TEST_P(CommunicatorTest, LeavesNoDescriptorMappingOrFileBehind) {
  const std::size_t descriptors = OpenDescriptors();
  RunThreads(3, GetParam(), [](Communicator& communicator) {
    CheckAllReduce<float>(communicator, DataType::kFloat32, ReduceOp::kSum, 100'000);
    EXPECT_THAT(SharedSegments(), Each(Not(HasSubstr("lockstep"))));
  });
  EXPECT_EQ(OpenDescriptors(), descriptors);
  const Result<std::string> maps = ReadFile("/proc/self/maps", 1 << 24);
  ASSERT_TRUE(maps.ok());
  EXPECT_THAT(*maps, Not(HasSubstr("lockstep-collectives")));
}

}  // namespace
}  // namespace lockstep::runtime
