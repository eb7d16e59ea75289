#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/collectives/shared_memory/shared_memory_communicator.h"
#include "trainer-runtime/collectives/shared_memory/shared_memory_layout.h"
#include "trainer-runtime/collectives/shared_memory/shared_segment.h"
#include "trainer-runtime/collectives/testing_world.h"

// What the ranks of one machine write and read in shared memory is ordered by their words alone.
//
// Everywhere else each rank maps the segment at an address of its own, and the thread sanitizer,
// which goes by addresses, sees memories that nobody shares. Here ranks are threads on one mapping,
// and nothing but the segment orders them: no lock, no socket, no assertion before all have ended.
// So these tests say little in other builds, and in the tsan build they speak for every fence.
//
// Each of these, planted alone, made the sanitizer report "data race" between the two named:
//
//   planted                                           read or written against written
//   Publish stores relaxed                            AwaitPost against PostCall
//   HasReached loads relaxed                          AwaitPost against PostCall
//   FindMismatch loads the sequence relaxed           FindMismatch against PostCall
//   one post for all calls instead of two             AwaitPost against PostCall
//   a failure record's state is stored relaxed        ReportedFailure against ReportFailure
//   a failure record's state is loaded relaxed        ReportedFailure against ReportFailure
//   kStageDepth 2 instead of 3                        Stage against the peer's ReduceSlice
//   ReduceSlice waits for nobody's input              ReduceSlice against the peer's Stage
//   a broadcast's root does not wait for copies       the root's copy in against a peer's copy out
//   EndReading waits for nobody                       the next numbers against CopyLentSlices
//   CopyLentSlices waits for nobody                   CopyLentSlices against ReduceLentSlice
//   LentAllReduce does not meet                       ReduceLentSlice against the peer's numbers
//
// With processes, or with a mapping for each thread, none of them is reported.

namespace lockstep::runtime {
namespace {

// What one rank does; true when all went as it should. `own` is what it lends the others.
using LenderTest = std::function<bool(Communicator& communicator, std::span<int32_t> own)>;
using RankTest = std::function<bool(Communicator& communicator)>;

// The memory of all, as `rank` sees it.
LentMemory View(int rank, const std::vector<SharedSegment>& memories) {
  std::vector<SharedSegment> seen;
  for (const SharedSegment& memory : memories) {
    seen.push_back(SharedSegment::Borrow(memory));
  }
  return LentMemory(rank, std::move(seen));
}

// Runs `test` for every rank, on a thread of its own and on one mapping of everything. Each lends
// so many elements.
void RunOnOneMapping(int world_size, std::size_t lent_count, const LenderTest& test) {
  auto segment = SharedSegment::Create(SharedMemoryLayout::ByteCount(world_size));
  ASSERT_TRUE(segment.ok()) << segment.error().ToString();
  std::vector<SharedSegment> lent;
  for (int rank = 0; rank < world_size; ++rank) {
    lent.push_back(SharedSegment::CreateForReaders(lent_count * sizeof(int32_t)).value());
  }
  LinkMatrix links = MakeLinks(world_size);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < world_size; ++rank) {
    communicators.push_back(
        MakeSharedMemoryCommunicator(OptionsOf(rank, Backend::kSharedMemory, links),
                                     SharedSegment::Borrow(*segment),
                                     View(rank, lent)));
  }
  std::vector<int> passed(static_cast<std::size_t>(world_size), 0);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    threads.emplace_back(
        [&test,
         &communicator = *communicators[index],
         &result = passed[index],
         own = std::span(reinterpret_cast<int32_t*>(lent[index].data()), lent_count)] {
          result = test(communicator, own) ? 1 : 0;
        });
  }
  threads.clear();
  for (int rank = 0; rank < world_size; ++rank) {
    EXPECT_EQ(passed[static_cast<std::size_t>(rank)], 1) << "rank " << rank << " of " << world_size;
  }
}

void RunOnOneMapping(int world_size, const RankTest& test) {
  constexpr std::size_t kLentCount = 1;  // that nobody looks at
  RunOnOneMapping(world_size, kLentCount, [&test](Communicator& communicator, std::span<int32_t>) {
    return test(communicator);
  });
}

// Writes over `data` before and reads it after.
bool SumsUp(Communicator& communicator, std::span<int32_t> data) {
  std::ranges::fill(data, communicator.rank() + 1);
  const Status status =
      communicator.AllReduce(data.data(), data.size(), DataType::kInt32, ReduceOp::kSum, Soon());
  const int32_t sum = communicator.world_size() * (communicator.world_size() + 1) / 2;
  return status.ok() && std::ranges::count(data, sum) == std::ssize(data);
}

bool SumsUp(Communicator& communicator, std::size_t count) {
  std::vector<int32_t> data(count);
  return SumsUp(communicator, data);
}

bool Spreads(Communicator& communicator, std::size_t size, int root) {
  std::vector<uint8_t> data(size, static_cast<uint8_t>(communicator.rank()));
  const Status status = communicator.Broadcast(data.data(), size, root, Soon());
  return status.ok() &&
         std::count(data.begin(), data.end(), static_cast<uint8_t>(root)) == std::ssize(data);
}

TEST(SharedMemoryRace, SmallMessagesAreReadAfterTheyAreWritten) {
  for (int world_size = 2; world_size <= 4; ++world_size) {
    RunOnOneMapping(world_size, [](Communicator& communicator) {
      bool is_right = true;
      for (std::size_t round = 0; round < 50; ++round) {
        is_right = SumsUp(communicator, 1 + round % 3 * 100) && is_right;
        is_right = communicator.Barrier(Soon()).ok() && is_right;
      }
      return is_right;
    });
  }
}

// Chunks enough that each place of the segment is used again and again, and slices that begin
// elsewhere from call to call.
TEST(SharedMemoryRace, ChunksAreReadBeforeTheirPlaceIsUsedAgain) {
  for (int world_size = 2; world_size <= 4; ++world_size) {
    const std::size_t elements = SharedMemoryLayout::ChunkBytes(world_size) / sizeof(int32_t);
    RunOnOneMapping(world_size, [elements](Communicator& communicator) {
      bool is_right = true;
      for (const std::size_t chunk_count : {1, 2, 3, 4, 8}) {
        is_right = SumsUp(communicator, chunk_count * elements - chunk_count * 17) && is_right;
      }
      return is_right;
    });
  }
}

TEST(SharedMemoryRace, EveryRootMayBroadcastAfterEveryOtherCall) {
  for (int world_size = 2; world_size <= 4; ++world_size) {
    const std::size_t chunk = SharedMemoryLayout::ChunkBytes(world_size);
    RunOnOneMapping(world_size, [chunk](Communicator& communicator) {
      bool is_right = true;
      for (int root = 0; root < communicator.world_size(); ++root) {
        is_right = Spreads(communicator, 5 * chunk + 100, root) && is_right;
        is_right = SumsUp(communicator, 10) && is_right;
        is_right = SumsUp(communicator, chunk) && is_right;
        is_right = Spreads(communicator, 100, root) && is_right;
      }
      return is_right;
    });
  }
}

// Who holds the bytes is in its next call while others still copy.
TEST(SharedMemoryRace, HoldersOfABroadcastMayRunAhead) {
  for (int world_size = 2; world_size <= 4; ++world_size) {
    const std::size_t chunk = SharedMemoryLayout::ChunkBytes(world_size);
    RunOnOneMapping(world_size, [chunk](Communicator& communicator) {
      bool is_right = true;
      for (int root = 0; root < communicator.world_size(); ++root) {
        const int lacking = (root + 1) % communicator.world_size();
        const bool holds = communicator.rank() != lacking;
        std::vector<uint8_t> data(5 * chunk + 100, holds ? 7 : 0);
        const Status status = communicator.Fill(data.data(), data.size(), root, holds, Soon());
        is_right = status.ok() && std::count(data.begin(), data.end(), 7) == std::ssize(data) &&
                   SumsUp(communicator, chunk) && is_right;
      }
      return is_right;
    });
  }
}

// Each rank makes the numbers of its next sum as soon as it has the last one, while others are not
// as far; several places, of which one is small, and staged sums in between.
TEST(SharedMemoryRace, LentMemoryIsItsOwnersAgainAfterTheSum) {
  for (int world_size = 2; world_size <= 4; ++world_size) {
    constexpr std::size_t kCount = 2 * LentMemory::kChunkBytes / sizeof(int32_t);
    RunOnOneMapping(world_size, kCount, [](Communicator& communicator, std::span<int32_t> own) {
      bool is_right = true;
      for (std::size_t round = 0; round < 4; ++round) {
        is_right = SumsUp(communicator, own.subspan(17 * round)) && is_right;
        is_right = SumsUp(communicator, own.first(own.size() / 4)) && is_right;
        is_right = SumsUp(communicator, own.first(10)) && is_right;
        is_right = SumsUp(communicator, own.size() / 3) && is_right;
      }
      return is_right;
    });
  }
}

TEST(SharedMemoryRace, LentMemoryIsItsOwnersAgainAfterABroadcast) {
  for (int world_size = 2; world_size <= 4; ++world_size) {
    RunOnOneMapping(world_size, 50000, [](Communicator& communicator, std::span<int32_t> own) {
      bool is_right = true;
      for (int root = 0; root < communicator.world_size(); ++root) {
        std::ranges::fill(own, communicator.rank());
        const bool holds = communicator.rank() == (root + 1) % communicator.world_size();
        std::ranges::fill(own, holds ? root : communicator.rank());
        const Status status = communicator.Fill(own.data(), own.size_bytes(), root, holds, Soon());
        is_right = status.ok() && std::ranges::count(own, root) == std::ssize(own) && is_right;
      }
      return is_right;
    });
  }
}

TEST(SharedMemoryRace, AFailureIsReadAfterItIsWritten) {
  for (int world_size = 2; world_size <= 4; ++world_size) {
    RunOnOneMapping(world_size, [](Communicator& communicator) {
      if (communicator.rank() == 0) {
        communicator.Abort(Error(ErrorCode::kAborted, "enough"));
      }
      const Status status = communicator.Barrier(Soon());
      return !status.ok() && status.error().ToString().find("enough") != std::string::npos;
    });
  }
}

// The sanitizer watches memory that came from a segment at all.
TEST(SharedMemoryRace, TheSanitizerSeesWhatNothingOrders) {
#if !defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "not a build with the thread sanitizer";
#else
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto race = [] {
    auto owner = SharedSegment::Create(4096);
    const SharedSegment borrowed = SharedSegment::Borrow(*owner);
    {
      const std::jthread one([&] { *owner->data() = std::byte{1}; });
      const std::jthread other([&] { *borrowed.data() = std::byte{2}; });
    }
    std::exit(EXIT_SUCCESS);
  };
  EXPECT_EXIT(
      race(), [](int) { return true; }, "data race");
#endif
}

}  // namespace
}  // namespace lockstep::runtime
