#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "common/contract/status/lost_peer.h"
#include "trainer-runtime/collectives/hierarchical_communicator.h"
#include "trainer-runtime/collectives/shared_memory/shared_memory_communicator.h"
#include "trainer-runtime/collectives/shared_memory/shared_memory_layout.h"
#include "trainer-runtime/collectives/shared_memory/shared_segment.h"
#include "trainer-runtime/collectives/tcp/tcp_communicator.h"
#include "trainer-runtime/collectives/testing_world.h"

// Large worlds, with ranks as threads. A link from each of 1,024 ranks to each other one would be a
// million descriptors in one process, which no machine has: where they share memory links only tell
// of deaths, so they are left out, and over TCP there are as many ranks as this process may have
// descriptors for.

namespace lockstep::runtime {
namespace {

using testing::Contains;

// A thousand threads take two cores most of a minute: a quarter of them does, unless all are asked
// for (scripts/test.sh --soak).
int LargeWorldSize() {
  return std::getenv("LOCKSTEP_LARGEST_WORLDS") == nullptr ? kWorldSizeMax / 4 : kWorldSizeMax;
}

// Of a busy machine with far fewer cores than threads: only a hang reaches it.
Deadline Late() {
  return Deadline::After(SteadyNow(), std::chrono::minutes(5));
}

CommunicatorOptions OptionsWithoutLinks(int rank, int world_size) {
  CommunicatorOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.epoch = Epoch(3);
  return options;
}

using Ranks = std::vector<std::unique_ptr<Communicator>>;

// Runs all kinds of call on all ranks, each on a thread of its own.
void ExpectRightResults(const Ranks& ranks) {
  const auto world_size = static_cast<int32_t>(ranks.size());
  std::vector<std::string> problems(ranks.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Communicator& communicator = *ranks[rank];
      const auto check = [&](const Status& status, bool is_right, const char* what) {
        if (!status.ok() || !is_right) {
          problems[rank] += std::string(what) + (status.ok() ? "" : status.error().ToString());
        }
      };
      int32_t one = 1;
      Status status = communicator.AllReduce(&one, 1, DataType::kInt32, ReduceOp::kSum, Late());
      check(status, one == world_size, "sum of one ");
      std::vector<int32_t> many(1000, communicator.rank());
      status = communicator.AllReduce(
          many.data(), many.size(), DataType::kInt32, ReduceOp::kMax, Late());
      check(status, many == std::vector<int32_t>(1000, world_size - 1), "maximum of many ");
      std::vector<int32_t> filled(8000, communicator.rank() % 3 == 1 ? 7 : 0);
      status = communicator.Fill(filled.data(), 32'000, 1, communicator.rank() % 3 == 1, Late());
      check(status, filled == std::vector<int32_t>(8000, 7), "fill ");
      check(communicator.Barrier(Late()), true, "barrier ");
    });
  }
  threads.clear();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ASSERT_EQ(problems[rank], "") << "rank " << rank << " of " << world_size;
  }
}

TEST(WorldSize, ManyRanksShareMemory) {
  const int world_size = LargeWorldSize();
  const std::size_t bytes = SharedMemoryLayout::ByteCount(kWorldSizeMax);
  EXPECT_LE(bytes, std::size_t{64} << 20U);
  auto segment = SharedSegment::Create(bytes);
  ASSERT_TRUE(segment.ok()) << segment.error().ToString();
  Ranks ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.push_back(MakeSharedMemoryCommunicator(OptionsWithoutLinks(rank, world_size),
                                                 SharedSegment::Borrow(*segment)));
  }
  ExpectRightResults(ranks);
}

TEST(WorldSize, ManyRanksOnManyHosts) {
  constexpr int kHosts = 32;
  const int world_size = LargeWorldSize();
  const int ranks_each = world_size / kHosts;
  std::vector<std::vector<int>> groups(kHosts);
  std::vector<SharedSegment> segments;
  for (int rank = 0; rank < world_size; ++rank) {
    groups[static_cast<std::size_t>(rank / ranks_each)].push_back(rank);
  }
  LinkMatrix links = MakeLinks(kHosts);
  Ranks ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    const int host = rank / ranks_each;
    HierarchyParts parts;
    parts.groups = groups;
    if (rank % ranks_each == 0) {
      segments.push_back(SharedSegment::Create(SharedMemoryLayout::ByteCount(ranks_each)).value());
      CommunicatorOptions across = OptionsWithoutLinks(host, kHosts);
      across.links = std::move(links[static_cast<std::size_t>(host)]);
      parts.across = MakeTcpCommunicator(std::move(across)).value();
    }
    parts.within = MakeSharedMemoryCommunicator(OptionsWithoutLinks(rank % ranks_each, ranks_each),
                                                SharedSegment::Borrow(segments.back()));
    ranks.push_back(
        MakeHierarchicalCommunicator(OptionsWithoutLinks(rank, world_size), std::move(parts)));
  }
  ExpectRightResults(ranks);
}

// As many as there are descriptors for, up to `most`.
int RanksByDescriptors(int most) {
  rlimit limit{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  int ranks = most;
  while (static_cast<rlim_t>(ranks) * static_cast<rlim_t>(ranks + 1) + 100 > limit.rlim_cur) {
    --ranks;
  }
  return ranks;
}

TEST(WorldSize, MoreRanksThanAWordHasBitsJoinByTcpAndNameTheLostOne) {
  const int world_size = RanksByDescriptors(70);
  if (world_size <= 65) {
    GTEST_SKIP() << "descriptors for " << world_size << " ranks only";
  }
  const int leaver = world_size - 2;
  RunThreads(world_size, Backend::kTcp, [&](Communicator& communicator) {
    std::vector<int32_t> data(10'000, 1);
    const Status status =
        communicator.AllReduce(data.data(), data.size(), DataType::kInt32, ReduceOp::kSum, Late());
    ASSERT_TRUE(status.ok()) << status.error().ToString();
    ASSERT_TRUE(std::ranges::all_of(data, [&](int32_t sum) { return sum == world_size; }));
    if (communicator.rank() == leaver) {
      return;
    }
    const Status lost = communicator.Barrier(Late());
    ASSERT_FALSE(lost.ok());
    EXPECT_EQ(lost.error().code(), ErrorCode::kPeerLost);
    EXPECT_THAT(ParseLostPeers(lost.error().ToString()), Contains(leaver));
  });
}

}  // namespace
}  // namespace lockstep::runtime
