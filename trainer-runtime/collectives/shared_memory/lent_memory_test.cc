#include "trainer-runtime/collectives/shared_memory/lent_memory.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "common/contract/status/lost_peer.h"
#include "trainer-runtime/collectives/shared_memory/shared_memory_communicator.h"
#include "trainer-runtime/collectives/shared_memory/shared_memory_group.h"
#include "trainer-runtime/collectives/shared_memory/shared_memory_layout.h"
#include "trainer-runtime/collectives/testing_world.h"

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Of every rank others, so that a sum in another order has other bits.
std::vector<float> Numbers(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto unit = static_cast<float>(1 + i % 97);
    values[i] = static_cast<float>(rank + 1) / unit * (i % 2 == 0 ? 1.0F : -3.0e5F);
  }
  return values;
}

std::span<float> Floats(std::span<std::byte> own) {
  return {reinterpret_cast<float*>(own.data()), own.size() / sizeof(float)};
}

Status Sum(Communicator& communicator, std::span<float> data) {
  return communicator.AllReduce(
      data.data(), data.size(), DataType::kFloat32, ReduceOp::kSum, Soon());
}

TEST(LentMemory, PlaceIsTheOffsetInOnesOwn) {
  std::vector<SharedSegment> memories;
  for (int rank = 0; rank < 2; ++rank) {
    memories.push_back(SharedSegment::CreateForReaders(100).value());
  }
  const std::byte* const own = memories[1].data();
  const std::byte* const other = memories[0].data();
  const LentMemory lent(1, std::move(memories));
  EXPECT_EQ(lent.PlaceOf(own, 100), 1U);
  EXPECT_EQ(lent.PlaceOf(own + 40, 60), 41U);
  EXPECT_EQ(lent.PlaceOf(own + 40, 0), 0U);
  EXPECT_EQ(lent.PlaceOf(other, 100), 0U);
  EXPECT_EQ(lent.PlaceOf(&lent, sizeof(lent)), 0U);
  EXPECT_EQ(lent.At(0, 41), other + 40);
  EXPECT_EQ(LentMemory().PlaceOf(own, 1), 0U);
}

TEST(LentMemoryDeathTest, DataMayNotStickOut) {
  std::vector<SharedSegment> memories;
  memories.push_back(SharedSegment::CreateForReaders(100).value());
  const std::byte* const own = memories[0].data();
  const LentMemory lent(0, std::move(memories));
  EXPECT_DEATH(static_cast<void>(lent.PlaceOf(own + 50, 51)), "outside the shared memory");
}

// Whoever has the descriptor can read, and neither it nor what it has mapped can ever write.
TEST(LentMemory, OnlyItsOwnerCanWrite) {
  constexpr std::size_t kSize = 8192;
  const SharedSegment owned = SharedSegment::CreateForReaders(kSize).value();
  void* const mapped = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, owned.fd(), 0);
  EXPECT_EQ(mapped, MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  auto read = SharedSegment::MapReadOnly(UniqueFd(::dup(owned.fd())), kSize);
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  owned.data()[kSize - 1] = std::byte{7};
  EXPECT_EQ(read->data()[kSize - 1], std::byte{7});
  EXPECT_EQ(::mprotect(read->data(), kSize, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(errno, EACCES);
}

TEST(LentMemory, OtherSizeIsRefused) {
  const SharedSegment owned = SharedSegment::CreateForReaders(8192).value();
  const auto read = SharedSegment::MapReadOnly(UniqueFd(::dup(owned.fd())), 4096);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), ErrorCode::kCorrupt);
}

// Bit for bit what a stage gives, wherever it lies, and nothing beside it changes.
TEST(LentMemory, SumsAreThoseOfAStage) {
  const std::size_t chunk = LentMemory::kChunkBytes / sizeof(float);
  const std::vector<std::size_t> counts = {1, 10000, chunk - 3, chunk, 3 * chunk + 1001};
  constexpr std::size_t kBefore = 21;  // elements
  for (const Backend backend : {Backend::kSharedMemory, Backend::kHierarchical}) {
    for (int world_size = 2; world_size <= 5; ++world_size) {
      const std::size_t bytes = (counts.back() + 2 * kBefore) * sizeof(float);
      RunLenders(
          world_size, backend, bytes, [&](Communicator& communicator, std::span<std::byte> own) {
            if (backend == Backend::kSharedMemory) {
              EXPECT_EQ(communicator.Detail(), "gradients in shared memory");
            }
            for (const std::size_t count : counts) {
              std::vector<float> staged = Numbers(communicator.rank(), count);
              const std::span<float> all = Floats(own);
              std::ranges::fill(all, 5.0F);
              const std::span<float> lent = all.subspan(kBefore, count);
              std::ranges::copy(staged, lent.begin());
              ASSERT_TRUE(Sum(communicator, lent).ok());
              ASSERT_TRUE(Sum(communicator, staged).ok());
              EXPECT_TRUE(std::ranges::equal(lent, staged)) << count << " of " << world_size;
              EXPECT_EQ(std::ranges::count(all.first(kBefore), 5.0F), kBefore);
              EXPECT_EQ(std::ranges::count(all.subspan(kBefore + count), 5.0F),
                        std::ssize(all.subspan(kBefore + count)));
            }
          });
    }
  }
}

TEST(LentMemory, BroadcastComesFromTheRootsPlace) {
  constexpr std::size_t kCount = 300000;
  for (const Backend backend : {Backend::kSharedMemory, Backend::kHierarchical}) {
    for (int root = 0; root < 3; ++root) {
      RunLenders(
          3,
          backend,
          kCount * sizeof(float),
          [&](Communicator& communicator, std::span<std::byte> own) {
            const std::span<float> data = Floats(own);
            const bool holds = communicator.rank() == (root + 1) % 3;
            const std::vector<float> expected = Numbers(root, kCount);
            std::ranges::fill(data, -1.0F);
            if (holds || communicator.rank() == root) {
              std::ranges::copy(expected, data.begin());
            }
            ASSERT_TRUE(communicator.Fill(data.data(), own.size(), root, holds, Soon()).ok());
            EXPECT_TRUE(std::ranges::equal(data, expected));
            ASSERT_TRUE(Sum(communicator, data).ok());
          });
    }
  }
}

// A rank that keeps what it has until all has come takes the bytes elsewhere.
TEST(LentMemory, BroadcastGoesWhereverTheOthersWantIt) {
  constexpr std::size_t kCount = 3 * LentMemory::kChunkBytes / sizeof(float) / 2;
  for (const bool is_root_lent : {true, false}) {
    RunLenders(3,
               Backend::kSharedMemory,
               kCount * sizeof(float),
               [&](Communicator& communicator, std::span<std::byte> own) {
                 std::vector<float> elsewhere(kCount);
                 const bool is_root = communicator.rank() == 1;
                 const std::span<float> data =
                     is_root == is_root_lent ? Floats(own) : std::span<float>(elsewhere);
                 const std::vector<float> expected = Numbers(1, kCount);
                 if (is_root) {
                   std::ranges::copy(expected, data.begin());
                 }
                 const Status filled =
                     communicator.Broadcast(data.data(), data.size_bytes(), 1, Soon());
                 ASSERT_TRUE(filled.ok()) << filled.error().ToString();
                 EXPECT_TRUE(std::ranges::equal(data, expected));
                 EXPECT_TRUE(communicator.Barrier(Soon()).ok());
               });
  }
}

TEST(LentMemory, OthersMemoryCanBeReadInPlace) {
  RunLenders(
      3, Backend::kSharedMemory, 1 << 20, [](Communicator& communicator, std::span<std::byte> own) {
        std::ranges::fill(own, static_cast<std::byte>(communicator.rank()));
        ASSERT_TRUE(communicator.Barrier(Soon()).ok());
        const std::byte* const theirs = communicator.LentBy(2, own.data() + 4096, 4096);
        ASSERT_NE(theirs, nullptr);
        EXPECT_EQ(std::count(theirs, theirs + 4096, std::byte{2}), 4096);
        EXPECT_EQ(communicator.LentBy(2, &communicator, 1), nullptr);
        ASSERT_TRUE(communicator.Barrier(Soon()).ok());
      });
  RunThreads(2, Backend::kTcp, [](Communicator& communicator) {
    EXPECT_EQ(communicator.LentBy(0, &communicator, 1), nullptr);
  });
}

// "START-END ... /memfd:lockstep-collectives (deleted)", in this process.
std::ptrdiff_t MappedSegmentCount() {
  std::ifstream maps("/proc/self/maps");
  std::ptrdiff_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("lockstep-collectives") != std::string::npos ? 1 : 0;
  }
  return count;
}

// What a lost rank lent is gone when those who are left leave the meeting.
TEST(LentMemory, MemoryOfTheDeadGoesWithTheLastCommunicator) {
  const std::ptrdiff_t before = MappedSegmentCount();
  LinkMatrix links = MakeLinks(2);
  auto lost = SharedSegment::CreateForReaders(1 << 20).value();
  const auto own = SharedSegment::CreateForReaders(1 << 20).value();
  std::unique_ptr<Communicator> theirs;
  std::jthread peer([&, options = OptionsOf(1, Backend::kSharedMemory, links)]() mutable {
    options.lent = &lost;
    theirs = MakeCommunicator(std::move(options), Soon()).value();
  });
  CommunicatorOptions options = OptionsOf(0, Backend::kSharedMemory, links);
  options.lent = &own;
  auto mine = MakeCommunicator(std::move(options), Soon()).value();
  peer.join();
  theirs.reset();
  { const SharedSegment gone = std::move(lost); }
  EXPECT_GT(MappedSegmentCount(), before + 1) << "the reader has it for as long as it may read";
  mine.reset();
  EXPECT_EQ(MappedSegmentCount(), before + 1) << "its own alone is left";
}

// What comes from another process is looked at before it is used.
TEST(LentMemory, PlacesOutsideAreSeen) {
  std::vector<SharedSegment> memories;
  memories.push_back(SharedSegment::CreateForReaders(100).value());
  const LentMemory lent(0, std::move(memories));
  EXPECT_TRUE(lent.Contains(1, 100));
  EXPECT_TRUE(lent.Contains(101, 0));
  EXPECT_FALSE(lent.Contains(0, 1));
  EXPECT_FALSE(lent.Contains(2, 100));
  EXPECT_FALSE(lent.Contains(102, 0));
  EXPECT_FALSE(lent.Contains(uint64_t{1} << 63U, 100));
  EXPECT_FALSE(lent.Contains(50, ~std::size_t{0}));
  EXPECT_FALSE(LentMemory().Contains(1, 0));
}

TEST(LentMemory, RanksThatMeanOtherPlacesDisagree) {
  RunLenders(
      2, Backend::kSharedMemory, 1 << 20, [](Communicator& communicator, std::span<std::byte> own) {
        const auto at = static_cast<std::size_t>(communicator.rank());
        const Status status = Sum(communicator, Floats(own).subspan(at, 100000));
        ASSERT_FALSE(status.ok());
        EXPECT_EQ(status.error().code(), ErrorCode::kMismatch);
        EXPECT_THAT(status.error().ToString(), HasSubstr("at byte 0 of shared memory"));
        EXPECT_THAT(status.error().ToString(), HasSubstr("at byte 4 of shared memory"));
      });
}

// What the last rank of three does that the others do not.
enum class Odd { kLendsNothing, kLendsMore, kCannotHandItOver };

// All or none: all sum by the stage, and the numbers may lie where they like.
TEST(LentMemory, NobodyLendsWhereOneDoesNot) {
  constexpr std::size_t kBytes = 100000 * sizeof(float);
  for (const Odd odd : {Odd::kLendsNothing, Odd::kLendsMore, Odd::kCannotHandItOver}) {
    LinkMatrix links = MakeLinks(3);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([is_odd = rank == 2,
                            odd,
                            options = OptionsOf(rank, Backend::kSharedMemory, links)]() mutable {
        const bool lends_more = is_odd && odd == Odd::kLendsMore;
        auto memory = SharedSegment::CreateForReaders(lends_more ? 2 * kBytes : kBytes);
        ASSERT_TRUE(memory.ok());
        if (is_odd && odd == Odd::kCannotHandItOver) {
          memory->CloseFd();
        }
        options.lent = is_odd && odd == Odd::kLendsNothing ? nullptr : &*memory;
        const auto communicator = MakeCommunicator(std::move(options), Soon());
        ASSERT_TRUE(communicator.ok()) << communicator.error().ToString();
        EXPECT_EQ((*communicator)->Detail(), "");
        const std::span<float> data = Floats({memory->data(), kBytes});
        std::ranges::fill(data, 1.0F);
        ASSERT_TRUE(Sum(**communicator, data).ok());
        EXPECT_EQ(std::ranges::count(data, 3.0F), std::ssize(data));
      });
    }
  }
}

// A rank that has failed writes to its memory as it likes: what another read there does not count.
TEST(LentMemory, FailureOfAnotherIsHeardAfterTheReading) {
  const auto segment = SharedSegment::Create(SharedMemoryLayout::ByteCount(2)).value();
  const SharedMemoryLayout layout(segment.data(), 2);
  LinkMatrix links = MakeLinks(2);
  SharedMemoryGroup one(0, layout, OptionsOf(0, Backend::kSharedMemory, links));
  SharedMemoryGroup other(1, layout, OptionsOf(1, Backend::kSharedMemory, links));
  const CallContext context{Call{}, 0, SteadyNow(), Soon(), 0};
  EXPECT_TRUE(one.CheckNobodyHasFailed(context).ok());
  other.Fail(Error(ErrorCode::kTimeout, "too late"));
  const Status told = one.CheckNobodyHasFailed(context);
  ASSERT_FALSE(told.ok());
  EXPECT_EQ(told.error().code(), ErrorCode::kTimeout);
  EXPECT_THAT(told.error().ToString(), HasSubstr("too late"));
  layout.failure()->state = FailureRecord::kBeingWritten;  // and its writer was killed
  EXPECT_EQ(one.CheckNobodyHasFailed(context).error().code(), ErrorCode::kAborted);
}

// Rank 0 of two on one mapping, whose peer has said everything that a call waits for, and has
// failed since: nothing but a look at the reports, after the last read, can tell.
class FailedLender {
 public:
  FailedLender() {
    std::vector<SharedSegment> seen;
    for (const SharedSegment& memory : memories_) {
      seen.push_back(SharedSegment::Borrow(memory));
    }
    communicator_ = MakeSharedMemoryCommunicator(OptionsOf(0, Backend::kSharedMemory, links_),
                                                 SharedSegment::Borrow(segment_),
                                                 LentMemory(0, std::move(seen)));
  }

  // The peer's part of the first call, which has one chunk at byte 0 of what is lent.
  void PeerHasFailedAfter(Call call) {
    call.epoch = 3;  // OptionsOf
    call.sequence = 1;
    call.place = 1;
    peer_.PostCall(call, nullptr, 0);
    peer_.Publish(layout_.progress(1)->reduced, 1);
    peer_.Publish(layout_.progress(1)->staged, 1);
    peer_.Fail(Error(ErrorCode::kTimeout, "too late"));
  }

  Communicator& communicator() { return *communicator_; }

  std::span<float> own() { return Floats({memories_[0].data(), kBytes}); }

 private:
  static constexpr std::size_t kBytes = 1 << 16;  // of a chunk, and above a small message

  SharedSegment segment_ = SharedSegment::Create(SharedMemoryLayout::ByteCount(2)).value();
  std::array<SharedSegment, 2> memories_ = {SharedSegment::CreateForReaders(kBytes).value(),
                                            SharedSegment::CreateForReaders(kBytes).value()};
  LinkMatrix links_ = MakeLinks(2);
  SharedMemoryLayout layout_{segment_.data(), 2};
  SharedMemoryGroup peer_{1, layout_, OptionsOf(1, Backend::kSharedMemory, links_)};
  std::unique_ptr<CommunicatorFront> communicator_;
};

TEST(LentMemory, SumWhoseNumbersMayBeOverwrittenIsNone) {
  FailedLender lender;
  ASSERT_GT(lender.own().size_bytes(), SharedMemoryLayout::SmallBytesMax(2));
  ASSERT_LE(lender.own().size_bytes(), SharedMemoryLayout::ChunkBytes(2));
  Call sum;
  sum.operation = Operation::kAllReduce;
  sum.count = lender.own().size();
  sum.type = DataType::kFloat32;
  sum.reduce = ReduceOp::kSum;
  lender.PeerHasFailedAfter(sum);
  const Status told = Sum(lender.communicator(), lender.own());
  ASSERT_FALSE(told.ok());
  EXPECT_EQ(told.error().code(), ErrorCode::kTimeout);
  EXPECT_THAT(told.error().ToString(), HasSubstr("rank 1 reported: too late"));
}

TEST(LentMemory, BroadcastWhoseNumbersMayBeOverwrittenIsNone) {
  FailedLender lender;
  Call broadcast;
  broadcast.operation = Operation::kBroadcast;
  broadcast.count = lender.own().size_bytes();
  broadcast.root = 1;
  lender.PeerHasFailedAfter(broadcast);
  const Status told = lender.communicator().Broadcast(
      lender.own().data(), lender.own().size_bytes(), broadcast.root, Soon());
  ASSERT_FALSE(told.ok());
  EXPECT_EQ(told.error().code(), ErrorCode::kTimeout);
}

// As soon as the root is gone, and not when the rest has been read of what it leaves behind.
TEST(LentMemory, LostRootEndsABroadcastBetweenTwoChunks) {
  const auto segment = SharedSegment::Create(SharedMemoryLayout::ByteCount(2)).value();
  LinkMatrix links = MakeLinks(2);
  SharedMemoryGroup reader(
      0, SharedMemoryLayout(segment.data(), 2), OptionsOf(0, Backend::kSharedMemory, links));
  const CallContext context{Call{}, 0, SteadyNow(), Soon(), 0};
  EXPECT_TRUE(reader.CheckGoesOn(context, 1).ok());
  links[1].clear();
  const Status lost = reader.CheckGoesOn(context, 1);
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().code(), ErrorCode::kPeerLost);
  EXPECT_THAT(ParseLostPeers(lost.error().ToString()), ElementsAre(1));
  const CallContext late{Call{}, 0, SteadyNow(), Deadline::After(SteadyNow(), Duration::zero()), 0};
  EXPECT_EQ(reader.CheckGoesOn(late, 1).error().code(), ErrorCode::kTimeout);
}

TEST(LentMemory, LostRankEndsTheSum) {
  RunLenders(
      3, Backend::kSharedMemory, 1 << 20, [](Communicator& communicator, std::span<std::byte> own) {
        if (communicator.rank() == 1) {
          return;  // its links close, its memory goes
        }
        const Status status = Sum(communicator, Floats(own));
        ASSERT_FALSE(status.ok());
        EXPECT_EQ(status.error().code(), ErrorCode::kPeerLost);
      });
}

}  // namespace
}  // namespace lockstep::runtime
