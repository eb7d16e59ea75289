#include "trainer-runtime/collectives/nccl/bounded_wait.h"

#include <future>
#include <memory>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

WaitLimits NoLimits() {
  return {Deadline::After(SteadyNow(), std::chrono::minutes(1)), [] { return OkStatus(); }};
}

TEST(WaitUntil, AsksUntilItIsDone) {
  int asked = 0;
  EXPECT_TRUE(WaitUntil([&]() -> Result<bool> { return ++asked == 2000; }, NoLimits()).ok());
  EXPECT_EQ(asked, 2000);
}

TEST(WaitUntil, ErrorOfWhatIsAwaitedEndsIt) {
  const Status status = WaitUntil(
      []() -> Result<bool> { return Error(ErrorCode::kInternal, "it broke"); }, NoLimits());
  EXPECT_EQ(status.error().message(), "it broke");
}

TEST(WaitUntil, CheckIsAskedAgainAndAgain) {
  int checks_left = 3;
  WaitLimits limits = NoLimits();
  limits.check = [&] {
    return --checks_left > 0 ? OkStatus()
                             : Status(Error(ErrorCode::kPeerLost, "rank 1 is lost: closed"));
  };
  const Status status = WaitUntil([]() -> Result<bool> { return false; }, limits);
  EXPECT_EQ(status.error().code(), ErrorCode::kPeerLost);
}

TEST(WaitUntil, DeadlineEndsIt) {
  WaitLimits limits = NoLimits();
  limits.deadline = Deadline::At(SteadyNow());
  const Status status = WaitUntil([]() -> Result<bool> { return false; }, limits);
  EXPECT_EQ(status.error().code(), ErrorCode::kTimeout);
}

TEST(WaitUntil, WhatIsDoneAtTheDeadlineIsDone) {
  WaitLimits limits = NoLimits();
  limits.deadline = Deadline::At(SteadyNow());
  EXPECT_TRUE(WaitUntil([]() -> Result<bool> { return true; }, limits).ok());
}

TEST(BackgroundCall, GivesWhatTheCallReturned) {
  const BackgroundCall call([] { return 42; });
  EXPECT_TRUE(WaitUntil([&]() -> Result<bool> { return call.Poll() == 42; }, NoLimits()).ok());
}

TEST(BackgroundCall, CanBeGivenUp) {
  const auto may_return = std::make_shared<std::promise<void>>();
  const auto has_returned = std::make_shared<std::promise<void>>();
  {
    const BackgroundCall call([may_return, has_returned] {
      may_return->get_future().wait();
      has_returned->set_value();
      return 0;
    });
    EXPECT_EQ(call.Poll(), std::nullopt);
  }
  may_return->set_value();
  has_returned->get_future().wait();
}

}  // namespace
}  // namespace lockstep::runtime
