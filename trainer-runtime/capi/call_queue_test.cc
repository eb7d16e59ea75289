#include "trainer-runtime/capi/call_queue.h"

#include <future>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TEST(CallQueue, CallsEndInTheOrderInWhichTheyWereBegun) {
  std::vector<int> order;
  CallQueue queue;
  std::promise<void> gate;
  const auto first = queue.Begin([&, open = gate.get_future().share()] {
    open.wait();
    order.push_back(1);
    return OkStatus();
  });
  const auto second = queue.Begin([&]() -> Status {
    order.push_back(2);
    return Error(ErrorCode::kPeerLost, "gone");
  });
  EXPECT_FALSE(queue.HasEnded(*first).value());
  EXPECT_FALSE(queue.HasEnded(*second).value());
  gate.set_value();
  EXPECT_EQ(queue.Claim(*second).error().code(), ErrorCode::kPeerLost);
  EXPECT_TRUE(queue.HasEnded(*first).value());
  EXPECT_TRUE(queue.Claim(*first).ok());
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(CallQueue, AnEndIsHandedOutOnce) {
  CallQueue queue;
  const auto handle = queue.Begin([] { return OkStatus(); });
  EXPECT_TRUE(queue.Claim(*handle).ok());
  EXPECT_EQ(queue.Claim(*handle).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(queue.HasEnded(*handle).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(queue.HasEnded(0).error().code(), ErrorCode::kInvalidArgument);
}

TEST(CallQueue, IdleMeansThatAllHaveEnded) {
  CallQueue queue;
  int ended = 0;
  for (int call = 0; call < 100; ++call) {
    ASSERT_TRUE(queue
                    .Begin([&] {
                      ++ended;
                      return OkStatus();
                    })
                    .ok());
  }
  queue.AwaitIdle();
  EXPECT_EQ(ended, 100);
}

TEST(CallQueue, UnclaimedCallsAreBounded) {
  CallQueue queue;
  for (std::size_t call = 0; call < CallQueue::kUnclaimedMax; ++call) {
    ASSERT_TRUE(queue.Begin([] { return OkStatus(); }).ok());
  }
  EXPECT_EQ(queue.Begin([] { return OkStatus(); }).error().code(), ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep::runtime
