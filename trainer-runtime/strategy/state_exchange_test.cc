#include "trainer-runtime/strategy/state_exchange.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/collectives/testing_world.h"

namespace lockstep::runtime {
namespace {

// Two tensors, the second one of many pieces.
struct TestState {
  std::vector<float> small;
  std::vector<float> large;

  explicit TestState(float first) : small(17), large(400'001) {
    std::iota(small.begin(), small.end(), first);
    std::iota(large.begin(), large.end(), first);
  }

  std::vector<StateValues> tensors() { return {small, large}; }

  bool operator==(const TestState&) const = default;
};

TEST(StateExchange, OnlyWhoseDigestDiffersGetsAnything) {
  RunThreads(3, Backend::kTcp, [](Communicator& communicator) {
    RankControl control(&communicator);
    StateExchange exchange(&control, 0, Soon());
    TestState state(communicator.rank() == 2 ? 5.0F : 1.0F);
    ASSERT_TRUE(exchange.Compare(state.tensors(), HeldValues::kMaybeSame).ok());
    EXPECT_EQ(exchange.HoldsAll(), communicator.rank() != 2);
    EXPECT_EQ(exchange.holder_count(), 2);
    // What came would show: between the two a holder spoils what it has.
    if (communicator.rank() == 1) {
      state = TestState(9.0F);
    }
    ASSERT_TRUE(exchange.Fill(state.tensors()).ok());
    EXPECT_EQ(state == TestState(9.0F), communicator.rank() == 1);
  });
}

TEST(StateExchange, TensorsThatAreEqualAreLeftOut) {
  RunThreads(2, Backend::kSharedMemory, [](Communicator& communicator) {
    RankControl control(&communicator);
    StateExchange exchange(&control, 1, Soon());
    TestState state(1.0F);
    if (communicator.rank() == 0) {
      state.small.back() = -1.0F;
    }
    ASSERT_TRUE(exchange.Compare(state.tensors(), HeldValues::kMaybeSame).ok());
    EXPECT_EQ(exchange.Holds(0), communicator.rank() == 1);
    EXPECT_TRUE(exchange.Holds(1));
    EXPECT_EQ(exchange.holder_count(), 1);
    ASSERT_TRUE(exchange.Fill(state.tensors()).ok());
    EXPECT_EQ(state, TestState(1.0F));
  });
}

TEST(StateExchange, WhoCannotBeEqualGetsAllWithoutBeingRead) {
  for (const Backend backend : {Backend::kSharedMemory, Backend::kTcp, Backend::kHierarchical}) {
    RunThreads(3, backend, [](Communicator& communicator) {
      RankControl control(&communicator);
      StateExchange exchange(&control, 0, Soon());
      TestState state(communicator.rank() == 0 ? 1.0F : 2.0F);
      ASSERT_TRUE(exchange.Compare(state.tensors(), HeldValues::kNone).ok());
      EXPECT_EQ(exchange.HoldsAll(), communicator.rank() == 0);
      ASSERT_TRUE(exchange.Fill(state.tensors()).ok());
      EXPECT_EQ(state, TestState(1.0F));
    });
  }
}

// A state in memory that the ranks of a host lend each other, with a place for it that begins
// between two of the core's stores.
struct LentState {
  static constexpr std::size_t kCount = 3'000'005;  // values: several parts
  static constexpr std::size_t kBytes = (2 * kCount + 3) * sizeof(float);

  explicit LentState(std::span<std::byte> own)
      : all(reinterpret_cast<float*>(own.data()), own.size() / sizeof(float)),
        tensors{all.subspan(3, 0), all.subspan(3, kCount), all.subspan(3 + kCount, kCount)} {}

  void Set(float first) const { std::iota(all.begin(), all.end(), first); }

  bool Is(float first) const {
    std::vector<float> expected(all.size());
    std::iota(expected.begin(), expected.end(), first);
    return std::ranges::equal(all.subspan(3), std::span(expected).subspan(3));
  }

  std::span<float> all;
  std::vector<StateValues> tensors;
};

constexpr float kSources = 1.0F;

TEST(StateExchange, WhoHasNothingReadsWhereTheSourceHasIt) {
  for (int source = 0; source < 3; ++source) {
    RunLenders(3,
               Backend::kSharedMemory,
               LentState::kBytes,
               [&](Communicator& communicator, std::span<std::byte> own) {
                 RankControl control(&communicator);
                 StateExchange exchange(&control, source, Soon());
                 const LentState state(own);
                 const bool is_new = communicator.rank() == (source + 1) % 3;
                 state.Set(is_new ? 7.0F : kSources);
                 const HeldValues held = is_new ? HeldValues::kNone : HeldValues::kMaybeSame;
                 ASSERT_TRUE(exchange.Compare(state.tensors, held).ok());
                 EXPECT_TRUE(state.Is(kSources)) << "rank " << communicator.rank();
                 EXPECT_TRUE(exchange.HoldsAll()) << "rank " << communicator.rank();
                 EXPECT_EQ(exchange.has_begun(), is_new);
                 EXPECT_EQ(exchange.holder_count(), 2);
                 ASSERT_TRUE(exchange.Fill(state.tensors).ok());
                 EXPECT_TRUE(state.Is(kSources)) << "rank " << communicator.rank();
               });
  }
}

// The source reads nothing then: the digests are those of the rank that has read.
TEST(StateExchange, AReadersDigestsTellWhoDiffersFromTheSource) {
  RunLenders(4,
             Backend::kSharedMemory,
             LentState::kBytes,
             [&](Communicator& communicator, std::span<std::byte> own) {
               RankControl control(&communicator);
               StateExchange exchange(&control, 0, Soon());
               const LentState state(own);
               state.Set(kSources);
               HeldValues held = HeldValues::kMaybeSame;
               if (communicator.rank() == 1) {
                 state.tensors[2].back() += 1;
               } else if (communicator.rank() == 2) {
                 held = HeldValues::kNone;
                 state.Set(3.0F);
               } else if (communicator.rank() == 3) {
                 held = HeldValues::kOthers;
                 state.Set(4.0F);
               }
               ASSERT_TRUE(exchange.Compare(state.tensors, held).ok());
               EXPECT_EQ(exchange.Holds(1), communicator.rank() != 3);
               EXPECT_EQ(exchange.Holds(2), communicator.rank() % 2 == 0);
               EXPECT_EQ(exchange.holder_count(), 1);
               ASSERT_TRUE(exchange.Fill(state.tensors).ok());
               EXPECT_TRUE(state.Is(kSources)) << "rank " << communicator.rank();
             });
}

// On several hosts it goes the way that a state in anybody's own memory goes.
TEST(StateExchange, WhoCannotReadIsSentTo) {
  RunLenders(3,
             Backend::kHierarchical,
             LentState::kBytes,
             [&](Communicator& communicator, std::span<std::byte> own) {
               RankControl control(&communicator);
               StateExchange exchange(&control, 1, Soon());
               const LentState state(own);
               const bool is_new = communicator.rank() != 1;
               state.Set(is_new ? 7.0F : kSources);
               ASSERT_TRUE(exchange.Compare(state.tensors, HeldValues::kNone).ok());
               EXPECT_FALSE(exchange.has_begun());
               ASSERT_TRUE(exchange.Fill(state.tensors).ok());
               EXPECT_TRUE(state.Is(kSources)) << "rank " << communicator.rank();
             });
}

// What is read while its owner may write to it counts for nothing.
TEST(StateExchange, WhatWasReadOfASourceThatFailedIsNone) {
  RunLenders(2,
             Backend::kSharedMemory,
             LentState::kBytes,
             [&](Communicator& communicator, std::span<std::byte> own) {
               const LentState state(own);
               state.Set(communicator.rank() == 0 ? kSources : 7.0F);
               RankControl control(&communicator);
               if (communicator.rank() == 0) {  // as far as the others' reading, and no further
                 ASSERT_TRUE(control.CountRanks(false, Soon()).ok());
                 ASSERT_TRUE(control.LowestRank(false, Soon()).ok());
                 communicator.Abort(Error(ErrorCode::kAborted, "stopped and woken"));
                 state.Set(9.0F);
                 return;
               }
               StateExchange exchange(&control, 0, Soon());
               const Status compared = exchange.Compare(state.tensors, HeldValues::kNone);
               ASSERT_FALSE(compared.ok());
               EXPECT_EQ(compared.error().code(), ErrorCode::kAborted);
               EXPECT_NE(compared.error().ToString().find("rank 0"), std::string::npos);
               EXPECT_NE(compared.error().ToString().find("stopped and woken"), std::string::npos);
             });
}

}  // namespace
}  // namespace lockstep::runtime
