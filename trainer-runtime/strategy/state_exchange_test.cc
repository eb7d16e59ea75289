#include "trainer-runtime/strategy/state_exchange.h"

#include <algorithm>
#include <memory>
#include <numeric>
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
    ASSERT_TRUE(exchange.Compare(state.tensors(), true).ok());
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
    ASSERT_TRUE(exchange.Compare(state.tensors(), true).ok());
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
      ASSERT_TRUE(exchange.Compare(state.tensors(), communicator.rank() == 0).ok());
      EXPECT_EQ(exchange.HoldsAll(), communicator.rank() == 0);
      ASSERT_TRUE(exchange.Fill(state.tensors()).ok());
      EXPECT_EQ(state, TestState(1.0F));
    });
  }
}

}  // namespace
}  // namespace lockstep::runtime
